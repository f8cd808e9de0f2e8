package cli

import (
	"cmp"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"text/template"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/doorbelltest"

	"github.com/alecthomas/kong"
)

var update = flag.Bool("update", false, "write the tables made from the code into deploy/settings.md and deploy/doorbell.env.example")

const (
	settingsPage = "../../../deploy/settings.md"
	commandsPage = "../README.md"
	envExample   = "../../../deploy/doorbell.env.example"
)

func TestThePageOfSettingsListsEveryVariableAsTheCodeReadsIt(t *testing.T) {
	const begin, end = "<!-- configuration -->\n", "<!-- /configuration -->"
	have := readText(t, settingsPage)
	before, rest, ok := strings.Cut(have, begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("settings.md has no place for the table between %q and %q", begin, end)
	}
	hold(t, settingsPage, have, before+begin+filled(settingsTable)+end+after)
}

func TestThePageOfCommandsListsEveryCommand(t *testing.T) {
	_, rest, _ := strings.Cut(readText(t, commandsPage), "\n| command | what it does |\n|---|---|\n")
	table, _, _ := strings.Cut(rest, "\n\n")
	for _, command := range commands(t) {
		if !regexp.MustCompile("`(doorbell )?" + command + "[` ]").MatchString(table) {
			t.Errorf("the table has no %s", command)
		}
	}
}

// pages are the texts of all pages of the repository, by their path.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && (d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".") && path != top) {
			return cmp.Or(err, fs.SkipDir)
		}
		if filepath.Ext(path) == ".md" {
			all[path] = readText(t, path)
		}
		return nil
	})
	if err != nil || len(all) < 8 {
		t.Fatal(len(all), err)
	}
	return all
}

func TestEveryLinkOfThePagesResolves(t *testing.T) {
	link, heading := regexp.MustCompile(`\]\(([^)#\s]*)#?([^)\s]*)\)`), regexp.MustCompile(`(?m)^#+ (.+)$`)
	notInAnchors := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	for path, text := range pages(t) {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			target := filepath.Join(filepath.Dir(path), m[1])
			if m[1] == "" {
				target = path
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s: %v", path, err)
			}
			if m[2] == "" || filepath.Ext(target) != ".md" {
				continue
			}
			if !slices.ContainsFunc(heading.FindAllStringSubmatch(readText(t, target), -1), func(h []string) bool {
				return m[2] == strings.ReplaceAll(notInAnchors.ReplaceAllString(strings.ToLower(h[1]), ""), " ", "-")
			}) {
				t.Errorf("%s: %s has no heading #%s", path, target, m[2])
			}
		}
	}
}

// parses reports what the grammar makes of words after the name of the program.
func parses(t *testing.T, args []string) error {
	parser, err := newParser(kong.Exit(func(int) {}), kong.Writers(t.Output(), t.Output()))
	if err == nil {
		_, err = parser.Parse(args)
	}
	return err
}

func TestEveryCommandInDeployExists(t *testing.T) {
	t.Parallel()
	inText, inBlock := regexp.MustCompile("`(doorbell [^`]+)`"), regexp.MustCompile("(?m)^(doorbell .*)$")
	block := regexp.MustCompile("(?s)```\\w*\n.*?```")
	found := 0
	for path, text := range pages(t) {
		if !strings.HasPrefix(path, deployDir) {
			continue // the others name commands without their arguments
		}
		lines := inText.FindAllStringSubmatch(block.ReplaceAllString(text, ""), -1)
		for _, b := range block.FindAllString(text, -1) {
			lines = append(lines, inBlock.FindAllStringSubmatch(b, -1)...)
		}
		for _, line := range lines {
			found++
			command, _, _ := strings.Cut(line[1], " > ")
			quoted := false
			args := strings.FieldsFunc(command, func(r rune) bool {
				quoted = quoted != (r == '\'')
				return r == '\'' || r == ' ' && !quoted
			})
			if err := parses(t, args[1:]); err != nil {
				t.Errorf("%s: %s: %v", path, line[1], err)
			}
		}
	}
	if found < 40 {
		t.Errorf("only %d commands found", found)
	}
}

func TestTheEnvironmentExampleListsEveryVariableAsTheCodeReadsIt(t *testing.T) {
	hold(t, envExample, readText(t, envExample), filled(environmentFile))
}

func TestTheEnvironmentExampleIsAccepted(t *testing.T) {
	environ := []string{
		"DOORBELL_API_KEY=k", "DOORBELL_EMAIL_PASSWORD=p", "DOORBELL_SLACK_URL=https://hooks.example.com/s",
		"DOORBELL_TEAMS_URL=https://hooks.example.com/t", "DOORBELL_WEBHOOK_URL=https://hooks.example.com/w",
		"DOORBELL_WEBHOOK_SECRET=whsec_dGhpcy1rZXktaGFzLTI0LWJ5dGVzLW9r",
	}
	for _, m := range regexp.MustCompile(`(?m)^#?([A-Z_]+=.*)$`).FindAllStringSubmatch(readText(t, envExample), -1) {
		// This machine has none of the files. Of domain and prefix one may be set.
		if !strings.Contains(m[1], "/etc/doorbell/") && !strings.HasPrefix(m[1], "NATS_JS_DOMAIN=") {
			environ = append(environ, strings.ReplaceAll(m[1], "'", "")) // quotes as a shell and systemd read them
		}
	}
	c, err := config.Read(environ, config.GroupPoll, config.GroupForward)
	if err != nil || len(c.Warnings) > 0 || c.Poll.BaseURL == "" || len(c.Agencies) == 0 || len(environ) < 30 {
		t.Errorf("of %d assignments: %v, %q", len(environ), err, c.Warnings)
	}
}

// mostUsed are the settings with which the page begins.
var mostUsed = []string{
	"DOORBELL_BASE_URL", "DOORBELL_AGENCIES", "DOORBELL_API_KEY", "DOORBELL_SLACK_URL", "NATS_URL", "DOORBELL_DATA_DIR",
	"DOORBELL_REQUESTS_PER_SECOND",
}

// section is a part of the page of settings.
type section struct {
	Title    string
	Settings []*config.Setting
}

// sections are the settings that matter most, and then the others by group.
func sections() []section {
	all := []section{{Title: "The seven that matter"}}
	for _, name := range mostUsed {
		at := slices.IndexFunc(config.All(), func(s *config.Setting) bool { return s.Name == name })
		all[0].Settings = append(all[0].Settings, config.All()[at])
	}
	for _, s := range config.All() {
		if slices.Contains(mostUsed, s.Name) {
			continue
		}
		if title := string(s.Group); title != all[len(all)-1].Title {
			all = append(all, section{Title: title})
		}
		last := &all[len(all)-1]
		last.Settings = append(last.Settings, s)
	}
	return all
}

const settingsTable = `{{range .}}
| {{.Title}} | default | meaning |
|---|---|---|
{{range .Settings}}| ${{.Name}}$ | {{with .Default}}${{.}}${{else}}–{{end}} | {{cell .Meaning}} |
{{end}}{{end}}
`

const environmentFile = `# All variables of doorbell, with their defaults. systemd reads this file as EnvironmentFile=, and a shell can source it.
# Commented-out values are defaults or examples. Secrets are better kept in a file (mode 0600) than here.
{{range .}}
# --- {{.Title}} ---
{{range .Settings}}
# {{.Meaning}}
{{assignment .}}
{{end}}{{end}}`

// filled fills a template, whose $ are backquotes, with the settings.
func filled(text string) string {
	functions := template.FuncMap{"assignment": assignment, "cell": func(s string) string { return strings.ReplaceAll(s, "|", `\|`) }}
	var b strings.Builder
	t := template.Must(template.New("").Funcs(functions).Parse(strings.ReplaceAll(text, "$", "`")))
	if err := t.Execute(&b, sections()); err != nil {
		panic(err)
	}
	return b.String()
}

// examples are values for variables without a default.
var examples = map[string]string{
	"DOORBELL_ALLOW_PLAINTEXT":   "api.internal",
	"DOORBELL_BASE_URL":          "https://api.example.com",
	"DOORBELL_AGENCIES":          "A100",
	"DOORBELL_INSERTIONS_FILTER": "'offerType=RENT&searchQuery=8005'",
	"DOORBELL_IGNORE_FIELDS":     "insertion:/views,contact_request:/read",
	"DOORBELL_RECORDS_PATH":      "insertion:/data/items,contact_request:/leads",
	"DOORBELL_CONTACT_ID_FIELDS": "id,contactRequestId",
	"DOORBELL_CA_FILE":           "/etc/doorbell/ca.pem",
	"DOORBELL_ROUTES_FILE":       "/etc/doorbell/routes.csv",
	"DOORBELL_EMAIL_SMTP":        "smtp://leads@mail.example.com:587",
	"DOORBELL_EMAIL_FROM":        "leads@agency.example",
	"DOORBELL_EMAIL_TO":          "'A100=nora@agency.example;max@agency.example,*=leads@agency.example'",
	"DOORBELL_EMAIL_ALERTS_TO":   "it@agency.example",
	"DOORBELL_LANGUAGE":          "en",
	"DOORBELL_PEOPLE":            "full",
	"DOORBELL_AGENCY_NAMES":      "'A100=Muster Immobilien AG'",
	"NATS_URL":                   "nats://nats.internal:4222",
	"NATS_USER":                  "doorbell",
	"NATS_JS_DOMAIN":             "hub",
	"NATS_JS_API_PREFIX":         "JS.leads.API",

	"DOORBELL_WEBHOOK_TEMPLATE_FILE": "/etc/doorbell/hubspot.json",
}

// assignment is the line of a variable. A variable that can be set only in this file is not commented out.
func assignment(s *config.Setting) string {
	line := s.Name + "=" + s.Default
	switch example := examples[s.Name]; {
	case s.Secret && example == "":
		line = s.Name + config.FileSuffix + "=/etc/doorbell/" + strings.ToLower(strings.TrimPrefix(s.Name, "DOORBELL_"))
	case example != "":
		line = s.Name + "=" + example
	case s.Default == "":
		line = s.Name + "=/etc/doorbell/" + strings.ToLower(s.Name)
	}
	if s.Name == "DOORBELL_BASE_URL" {
		return line
	}
	return "#" + line
}

// hold compares a file with the output of the code, or with -update writes it.
func hold(t *testing.T, path, have, want string) {
	t.Helper()
	if have == want {
		return
	}
	if *update {
		must(t, os.WriteFile(path, []byte(want), 0o644))
		return
	}
	t.Errorf("%s does not match the code; run: go test ./cmd/doorbell/cli -run 'PageOfSettings|EnvironmentExample|DefinitionsForNATS' -update", path)
}

func readText(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	return string(text)
}

func TestTheChangelogBeginsWithTheVersionThatTheProgramPrints(t *testing.T) {
	_, newest, _ := strings.Cut(readText(t, filepath.Join(top, "deploy", "changelog.md")), "\n## ")
	newest, _, _ = strings.Cut(newest, "\n")
	if got := doorbelltest.Run(t, nil, "version"); newest != release || !strings.HasPrefix(got.Stdout, "doorbell "+newest+" (") {
		t.Errorf("the changelog begins with %q, the program prints %q", newest, got.Stdout)
	}
}
