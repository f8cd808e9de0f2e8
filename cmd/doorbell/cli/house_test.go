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

// house is the rule who may import whom of ours. What a room must not know, it cannot come to depend on: events can be
// decoded without NATS, the poller runs without an environment, the sandbox cannot share the client's misunderstandings.
var house = map[string][]string{
	"schemas":                  {},
	"schemas/schematest":       {"schemas"},
	"schemas/skiptest":         {},
	"poller/listings":          {},
	"poller/schedule":          {},
	"poller/sandbox":           {},
	"events/natsd":             {},
	"events":                   {"schemas"},
	"events/stream":            {},
	"events/relay":             {"events", "events/stream"},
	"events/replay":            {"events", "events/stream"},
	"events/forward":           {"events", "events/stream"},
	"events/forward/message":   {"events"},
	"events/forward/slack":     {"events", "events/forward", "events/forward/message"},
	"events/forward/teams":     {"events", "events/forward", "events/forward/message"},
	"events/forward/email":     {"events", "events/forward", "events/forward/message"},
	"events/forward/webhook":   {"events", "events/forward", "events/forward/message"},
	"store":                    {"events"},
	"poller/watch":             {"poller/listings", "store", "events"}, // of the store only what it remembers, see pure
	"poller":                   {"poller/listings", "poller/schedule", "poller/watch", "store", "events"},
	"cmd/doorbell/people":      {"poller/listings", "store", "events", "events/stream"},
	"cmd/doorbell/report":      {"events", "events/forward", "events/forward/message"},
	"cmd/doorbell/ops":         {"cmd/doorbell/people", "cmd/doorbell/report", "poller", "store", "events", "events/forward/message", "events/stream", "schemas"}, // of the message words, of the stream an error
	"cmd/doorbell/feed":        {"events", "events/stream"},
	"cmd/doorbell/ops/page":    {"cmd/doorbell/ops", "poller", "store", "events"},
	"cmd/doorbell/ops/metrics": {"cmd/doorbell/ops", "poller"},
	"cmd/doorbell/standby":     {"store", "events/stream"},
	"cmd/doorbell/daemon": {
		"cmd/doorbell/exit", "cmd/doorbell/feed", "cmd/doorbell/standby", "cmd/doorbell/people", "cmd/doorbell/report", "cmd/doorbell/ops", "cmd/doorbell/ops/page", "cmd/doorbell/ops/metrics", "poller", "poller/listings", "store", "events", "events/natsd", "events/relay",
		"events/replay", "events/stream", "events/forward",
	},
	"cmd/doorbell/config": {"events", "events/forward", "events/forward/message", "events/forward/webhook"}, // what may be configured
	"cmd/doorbell/receivers": {
		"cmd/doorbell/config", "cmd/doorbell/report", "events", "events/forward", "events/forward/message", "events/forward/slack", "events/forward/teams", "events/forward/email",
		"events/forward/webhook",
	},
	"cmd/doorbell/options": {"cmd/doorbell/config", "cmd/doorbell/daemon", "cmd/doorbell/ops", "poller", "poller/listings", "events/natsd"},
	"cmd/doorbell/exit":    {"cmd/doorbell/config", "store"},
	"cmd/doorbell/shape":   {"poller/listings"},
	"cmd/doorbell/check": {
		"cmd/doorbell/config", "cmd/doorbell/daemon", "cmd/doorbell/exit", "cmd/doorbell/ops", "cmd/doorbell/options", "cmd/doorbell/receivers", "cmd/doorbell/shape",
		"poller", "poller/listings", "poller/watch", "store", "events", "events/natsd", "events/relay", "events/forward", "events/forward/message", "events/stream",
	},
	"cmd/doorbell/cli": everything,
	"cmd/doorbell":     {"cmd/doorbell/cli"},

	"cmd/doorbell/doorbelltest": everything, // but cli, whose tests import it
	"cmd/doorbell/torture":      everything,

	"poller/listings/listingstest": {},
	"events/natsd/natsdtest":       {"events/natsd"},
	"events/forward/forwardtest":   {"events", "events/forward"},
}

// everything stands for all packages that are no helpers of tests.
var everything = []string{"*"}

// helpersOfTests may be imported by the tests of every room, and by nothing else.
var helpersOfTests = []string{"schemas/schematest", "schemas/skiptest", "poller/listings/listingstest", "events/forward/forwardtest", "events/natsd/natsdtest", "cmd/doorbell/doorbelltest"}

// onlyInTests are further imports of tests, each for its reason.
var onlyInTests = map[string][]string{
	// A relay is tested against the server that we embed, not against a fake, and measured on a log on disk.
	"events/relay":         {"events/natsd", "store"},
	"events/replay":        {"events/natsd"},
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
	"github.com/nats-io/nats.go":               {"events/relay", "events/replay", "events/stream", "events/forward", "events/natsd", "events/natsd/natsdtest", "cmd/doorbell/cli", "cmd/doorbell/doorbelltest", "cmd/doorbell/torture (tests)", "cmd/doorbell/daemon", "cmd/doorbell/options", "cmd/doorbell/check", "cmd/doorbell/people", "cmd/doorbell/standby", "cmd/doorbell/feed (tests)"},
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

func TestEveryRoomImportsOnlyWhatItMay(t *testing.T) {
	for _, s := range sources(t) {
		allowed, known := house[s.room]
		if !known {
			t.Errorf("%s: there is no room %s in the house; put the file into one, or add the room to the list with its reason", s.path, s.room)
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
	return slices.Contains(allowed, ours) || slices.Contains(allowed, "*")
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
