package cli

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// house reads the table of .github/AGENTS.md: what each package may import of this module. What a
// package must not know, it cannot come to depend on: events can be decoded without NATS, the poller
// runs without an environment, the sandbox cannot share the client's misunderstandings.
func house(t *testing.T) map[string][]string {
	t.Helper()
	may := map[string][]string{}
	for line := range strings.Lines(readText(t, filepath.Join(top, ".github", "AGENTS.md"))) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 4 || !strings.Contains(cells[1], "`") {
			continue
		}
		name, list := strings.Trim(cells[1], " `"), strings.Trim(cells[2], " ")
		may[name] = strings.FieldsFunc(list, func(r rune) bool { return strings.ContainsRune("`, ", r) })
	}
	return may
}

// helpersOfTests may be imported by the tests of every room, and by nothing else.
var helpersOfTests = []string{"schemas/schematest", "schemas/skiptest", "poller/listings/listingstest", "events/forward/forwardtest", "events/natsd/natsdtest", "cmd/doorbell/doorbelltest"}

// onlyInTests are further imports of tests, each for its reason.
var onlyInTests = map[string][]string{
	// A relay is tested against the server that we embed, not against a fake, and measured on a log on disk.
	"events/relay":         {"events/natsd", "store"},
	"events/stream":        {"events/natsd"},
	"events/forward":       {"events/natsd"},
	"cmd/doorbell/standby": {"events/natsd"},
	"poller":               {"poller/sandbox"}, // and a poller against the API over real HTTP

	"cmd/doorbell/daemon": {"poller/sandbox"}, // and so is the whole
}

// heavy libraries and the only rooms that import them. A room with " (tests)" has them in its tests alone.
var heavy = map[string][]string{
	"go.etcd.io/bbolt":                         {"store", "cmd/doorbell/cli (tests)", "cmd/doorbell/doorbelltest", "cmd/doorbell/torture (tests)"},
	"github.com/nats-io/nats-server/v2":        {"events/natsd", "events/natsd/natsdtest", "events/relay (tests)", "events/stream (tests)", "events/forward (tests)", "cmd/doorbell/cli (tests)", "cmd/doorbell/doorbelltest", "cmd/doorbell/torture (tests)"},
	"github.com/nats-io/nats.go":               {"events/relay", "events/stream", "events/forward", "events/natsd", "events/natsd/natsdtest", "cmd/doorbell/cli", "cmd/doorbell/doorbelltest", "cmd/doorbell/torture (tests)", "cmd/doorbell/daemon", "cmd/doorbell/options", "cmd/doorbell/check", "cmd/doorbell/people", "cmd/doorbell/standby", "cmd/doorbell/feed (tests)"},
	"github.com/kelseyhightower/envconfig":     {"cmd/doorbell/config"},
	"github.com/alecthomas/kong":               {"cmd/doorbell/cli"},
	"github.com/prometheus/client_golang":      {"poller", "cmd/doorbell/ops/metrics", "cmd/doorbell/cli (tests)", "cmd/doorbell/doorbelltest", "cmd/doorbell/torture (tests)"},
	"github.com/chromedp/chromedp":             testsOnly,
	"github.com/chromedp/cdproto":              testsOnly,
	"github.com/wneessen/go-mail":              {"events/forward/email"},
	"github.com/emersion/go-smtp":              {"events/forward/email (tests)", "cmd/doorbell/cli (tests)", "cmd/doorbell/doorbelltest", "cmd/doorbell/torture (tests)"},
	"github.com/emersion/go-sasl":              {"events/forward/email (tests)"},
	"github.com/santhosh-tekuri/jsonschema/v6": {"schemas/schematest", "schemas (tests)"},
	"pgregory.net/rapid":                       testsOnly,
	"go.uber.org/goleak":                       testsOnly,
	"github.com/rogpeppe/go-internal":          testsOnly,

	// The judge of our signatures.
	"github.com/standard-webhooks/standard-webhooks/libraries": {"events/forward/webhook (tests)", "cmd/doorbell/cli (tests)", "cmd/doorbell/doorbelltest", "cmd/doorbell/torture (tests)"},
}

var testsOnly = []string{"* (tests)"}

// source is a Go file of this module.
type source struct {
	path, room string // with slashes, from the top
	test       bool
	imports    []string
}

func TestEveryPackageImportsOnlyWhatItMay(t *testing.T) {
	may := house(t)
	for _, s := range sources(t) {
		allowed, known := may[s.room]
		if !known {
			t.Errorf("%s: the table of .github/AGENTS.md has no package %s; put the file into another, or add a line", s.path, s.room)
			continue
		}
		for _, imported := range s.imports {
			if ours, ok := strings.CutPrefix(imported, "doorbell/"); ok && !mayImport(s, ours, allowed) {
				t.Errorf("%s: %s must not import %s", s.path, s.room, ours)
			}
		}
	}
}

func mayImport(s source, ours string, allowed []string) bool {
	switch {
	case (s.test || s.room == "cmd/doorbell/doorbelltest") && (ours == s.room || slices.Contains(helpersOfTests, ours)):
		return true
	case s.test && slices.Contains(onlyInTests[s.room], ours):
		return true
	case slices.Contains(helpersOfTests, ours):
		return false
	}
	return slices.Contains(allowed, ours) || slices.Contains(allowed, "everything")
}

func TestHeavyLibrariesStayInTheirRooms(t *testing.T) {
	for _, s := range sources(t) {
		for _, imported := range s.imports {
			library, rooms := owner(imported)
			if library == "" || slices.Contains(rooms, s.room) ||
				s.test && (slices.Contains(rooms, s.room+" (tests)") || slices.Contains(rooms, "* (tests)")) {
				continue
			}
			t.Errorf("%s: %s is imported by %q only", s.path, library, rooms)
		}
	}
}

// owner returns the rule that an import falls under.
func owner(imported string) (library string, rooms []string) {
	for l, r := range heavy {
		if imported == l || strings.HasPrefix(imported, l+"/") {
			return l, r
		}
	}
	return "", nil
}

// pure are rooms whose code computes values from values: what it must not name, by import and name.
var pure = map[string][]string{
	"poller/watch": {"time.Now", "time.Since", "time.Until", "time.AfterFunc", "time.NewTimer", "store.Store", "store.Tx", "listings.Client", "http.Client", "http.Get"},
}

func TestPureRoomsKnowNoClockGoroutineOrHandle(t *testing.T) {
	for _, s := range sources(t) {
		if pure[s.room] == nil || s.test {
			continue
		}
		for _, imported := range s.imports {
			if imported == "sync" || imported == "sync/atomic" || imported == "math/rand/v2" || imported == "log/slog" {
				t.Errorf("%s: imports %s; what it decides would not follow from its arguments alone", s.path, imported)
			}
		}
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(top, filepath.FromSlash(s.path)), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.GoStmt, *ast.SelectStmt:
				t.Errorf("%s starts or awaits goroutines", s.path)
			case *ast.SelectorExpr:
				if of, ok := n.X.(*ast.Ident); ok && slices.Contains(pure[s.room], of.Name+"."+n.Sel.Name) {
					t.Errorf("%s names %s.%s", s.path, of.Name, n.Sel.Name)
				}
			}
			return true
		})
	}
}

// TestJetStreamContextsAreMadeInOnePlace keeps NATS_JS_DOMAIN and NATS_JS_API_PREFIX from being forgotten anywhere. The embedded server,
// which imports nothing of ours, asks itself.
func TestJetStreamContextsAreMadeInOnePlace(t *testing.T) {
	made := map[string]int{}
	for _, s := range sources(t) {
		if s.test || s.room == "events/natsd" || slices.Contains(helpersOfTests, s.room) {
			continue
		}
		made[s.room] += strings.Count(readText(t, filepath.Join(top, filepath.FromSlash(s.path))), "jetstream.New")
	}
	maps.DeleteFunc(made, func(_ string, n int) bool { return n == 0 })
	if len(made) != 1 || made["events/stream"] != 3 {
		t.Errorf("JetStream contexts are made in %v", made)
	}
}

func TestEventsImportsTheStandardLibraryOnly(t *testing.T) {
	for _, s := range sources(t) {
		if s.room != "events" || s.test {
			continue
		}
		for _, imported := range s.imports {
			if first, _, _ := strings.Cut(imported, "/"); strings.Contains(first, ".") {
				t.Errorf("%s: imports %s; whoever decodes an event would have to take it along", s.path, imported)
			}
		}
	}
}

func TestNothingElseStandsAtTheTop(t *testing.T) {
	known := strings.Fields("go.mod go.sum README.md LICENSE cmd poller store events schemas deploy")
	known = append(known, "data") // what `doorbell run` leaves behind when it is tried here
	entries, err := os.ReadDir(top)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !slices.Contains(known, e.Name()) && !strings.HasPrefix(e.Name(), ".") {
			t.Errorf("%s has no place at the top", e.Name())
		}
	}
}

const top = "../../.."

// sources parses the imports of every Go file of the module, whatever its build constraints say.
func sources(t *testing.T) []source {
	t.Helper()
	var all []source
	err := filepath.WalkDir(top, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return skip(file, d.Name())
		}
		if path.Ext(file) == ".go" {
			all = append(all, parse(t, file))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 10 {
		t.Fatalf("only %d files found: looked in the wrong place", len(all))
	}
	return all
}

// skip leaves out what is not of this module.
func skip(dir, name string) error {
	if dir == top {
		return nil
	}
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	if err == nil || name == "testdata" || strings.HasPrefix(name, ".") {
		return filepath.SkipDir
	}
	return nil
}

func parse(t *testing.T, file string) source {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	f, err := parser.ParseFile(token.NewFileSet(), file, text, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	name, err := filepath.Rel(top, file)
	if err != nil {
		t.Fatal(err)
	}
	name = filepath.ToSlash(name)
	s := source{path: name, room: path.Dir(name), test: strings.HasSuffix(name, "_test.go")}
	for _, i := range f.Imports {
		imported, err := strconv.Unquote(i.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		s.imports = append(s.imports, imported)
	}
	return s
}
