package cli

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	runbookFile = deployDir + "/runbook.md"
	rulesFile   = deployDir + "/prometheus/alerts.yml"
)

// sections are the parts of the runbook, by the name of their alert.
func sections(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	parts := strings.Split(readText(t, runbookFile), "\n## ")
	for _, part := range parts[1:] {
		name, text, _ := strings.Cut(part, "\n")
		if all[name] != "" {
			t.Errorf("%s stands twice", name)
		}
		all[name] = text
	}
	return all
}

func TestTheRunbookHasEveryAlertAndNoOther(t *testing.T) {
	book := sections(t)
	var alerts []string
	for _, group := range documents(t, readText(t, rulesFile))[0].at("groups").list() {
		for _, rule := range group.at("rules").list() {
			name := rule.at("alert").text()
			if name == "" {
				continue
			}
			alerts = append(alerts, name)
			if _, there := book[name]; !there {
				t.Errorf("the runbook does not tell of %s", name)
			}
			if got := rule.at("annotations.runbook_url").text(); !strings.HasSuffix(got, "deploy/runbook.md#"+strings.ToLower(name)) {
				t.Errorf("%s leads to %q", name, got)
			}
		}
	}
	for name := range book {
		if !slices.Contains(alerts, name) {
			t.Errorf("the runbook tells of %s, and there is no such alert", name)
		}
	}
	if len(alerts) != 9 {
		t.Errorf("%d alerts", len(alerts))
	}
}

func TestEverySectionOfTheRunbookSaysWhatToDoAndWhenToWorry(t *testing.T) {
	for name, text := range sections(t) {
		if !strings.Contains(text, "\n```\n") || !strings.Contains(text, "\nWorry ") {
			t.Errorf("%s has no command, or does not say when to worry", name)
		}
	}
}

// commandNames are the first words of the grammar.
func commandNames() (names []string) {
	for i := range reflect.TypeFor[grammar]().NumField() {
		f := reflect.TypeFor[grammar]().Field(i)
		name := f.Tag.Get("name")
		if name == "" {
			name = strings.ToLower(f.Name)
		}
		names = append(names, name)
	}
	return names
}

var (
	codeSpan  = regexp.MustCompile("`(doorbell [^`]+)`")
	codeBlock = regexp.MustCompile("(?s)```\\w*\n(.*?)```")
	template  = regexp.MustCompile(`\{\{[^}]*\}\}`)
)

func TestEveryCommandInDeployExists(t *testing.T) {
	t.Parallel()
	found, parses := 0, parsing(t)
	for file, text := range deployed(t) {
		lines := commandsOfText
		if filepath.Ext(file) == ".md" {
			lines = commandsOfMarkdown
		}
		for _, line := range lines(text) {
			found++
			args := shellWords(line.text)[1:]
			if !slices.ContainsFunc(line.ends(args), func(end int) bool { return parses(args[:end]) == nil }) {
				t.Errorf("deploy/%s: %s: %v", file, line.text, parses(args))
			}
		}
	}
	if found < 40 {
		t.Errorf("only %d commands found", found)
	}
}

// commandLine is a command in a text, perhaps with words of a sentence behind it.
type commandLine struct {
	text  string
	prose bool
}

// ends are the numbers of arguments with which it may be read: of a sentence, any that hold its last flag.
func (c commandLine) ends(args []string) (all []int) {
	least := len(args)
	if c.prose {
		least = 1
		for i, a := range args {
			if strings.HasPrefix(a, "--") {
				least = i + 1
			}
		}
	}
	for end := least; end <= len(args); end++ {
		all = append(all, end)
	}
	return all
}

// commandsOfMarkdown are code, and read whole.
func commandsOfMarkdown(text string) (all []commandLine) {
	for _, block := range codeBlock.FindAllStringSubmatch(text, -1) {
		for line := range strings.Lines(block[1]) {
			if strings.HasPrefix(line, "doorbell ") {
				all = append(all, commandLine{text: strings.TrimSpace(line)})
			}
		}
	}
	for _, span := range codeSpan.FindAllStringSubmatch(codeBlock.ReplaceAllString(text, ""), -1) {
		all = append(all, commandLine{text: span[1]})
	}
	return all
}

// commandsOfText stand in comments and descriptions.
func commandsOfText(text string) (all []commandLine) {
	text = strings.ReplaceAll(text, "{{ $labels.forwarder }}", "slack")
	text = template.ReplaceAllString(text, "A100")
	begin := regexp.MustCompile(`(?:^|[\s/` + "`" + `])(doorbell (?:` + strings.Join(commandNames(), "|") + `)\b[^\n;:,()` + "`" + `"#]*)`)
	for line := range strings.Lines(text) {
		for _, m := range begin.FindAllStringSubmatch(line, -1) {
			sentence, _, _ := strings.Cut(m[1]+" ", ". ")
			all = append(all, commandLine{text: strings.TrimRight(strings.TrimSpace(sentence), ".?"), prose: true})
		}
	}
	return all
}

// shellWords splits at spaces outside of single quotes.
func shellWords(text string) (words []string) {
	quoted := false
	for _, part := range strings.FieldsFunc(text, func(r rune) bool {
		if r == '\'' {
			quoted = !quoted
		}
		return r == ' ' && !quoted
	}) {
		words = append(words, strings.ReplaceAll(part, "'", ""))
	}
	return words
}

// TestEveryLinkInDeployLeadsSomewhere wants the files and headings that documents point to.
func TestEveryLinkInDeployLeadsSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)`)
	for file, text := range deployed(t) {
		if filepath.Ext(file) != ".md" {
			continue
		}
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			path, heading, _ := strings.Cut(m[1], "#")
			target := filepath.Join(deployDir, filepath.Dir(file), path)
			if path == "" {
				target = filepath.Join(deployDir, file)
			}
			info, err := os.Stat(target)
			if err != nil {
				t.Errorf("deploy/%s: %v", file, err)
				continue
			}
			if heading != "" && !info.IsDir() && !slices.Contains(anchors(readText(t, target)), heading) {
				t.Errorf("deploy/%s: %s has no heading #%s", file, m[1], heading)
			}
		}
	}
}

// anchors are the names that headings of Markdown get.
func anchors(text string) (all []string) {
	odd := regexp.MustCompile(`[^\p{L}\p{N} _-]`)
	for _, m := range regexp.MustCompile(`(?m)^#+ (.+)$`).FindAllStringSubmatch(text, -1) {
		all = append(all, strings.ReplaceAll(odd.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return all
}
