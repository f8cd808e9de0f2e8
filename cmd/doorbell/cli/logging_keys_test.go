package cli

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// logKeys are all keys that attributes of log lines have. Whoever reads logs by machine relies on them: a new one is a decision,
// and one word per thing holds here too. Nothing of a person, no key of the API, and no payload has one.
var logKeys = map[string]string{
	"agency": "its id", "agencies": "how many", "waiting": "agencies whose first requests wait for the stream", "insertions": "how many", "reference": "of an insertion", "operation": "insertions or contact_requests",
	"err": "what went wrong, quoting nothing", "class": "kind of error, by which is decided", "reason": "why, in one word", "why": "in words",
	"status": "of HTTP", "attempt": "which one this was", "wait": "until the next one", "after": "how long it lasted", "since": "when it began",
	"repeated": "lines like this one that were not logged since the last", "advice": "what to do", "scope": "of a halt", "ends": "the alarm that is over",
	"event_id": "ce-id", "events": "how many", "count": "of messages or events", "from": "first sequence, or what was before", "to": "last sequence, or what is now",
	"published": "events", "already_there": "events",
	"part": "of the program", "server": "of NATS", "url": "without credentials", "nats": "address without credentials", "subject": "of NATS", "stream": "name",
	"consumer": "name", "line": "of the NATS server", "forwarder": "name", "lane": "of a forwarder", "outlets": "how many",
	"again": "it was there before", "refused": "what a receiver said",
	"cause": "of the end of a halt", "complete": "of a walk", "pages": "of a walk", "missing": "insertions", "known": "insertions",
	"reached": "how far it went", "allowed": "staleness", "needed": "requests a second", "requests_per_second": "budget", "last": "when it was well",
	"expected": "of the answers, as paths and types", "found": "instead of it", "key": "fingerprint", "api": "address", "data": "directory",
	"then": "what is done about it", "now": "where it was put",
	"pair": "of doorbells", "holder": "the doorbell of a pair that works", "age": "of a copy",
	"in_use": "bytes", "most": "bytes", "job": "of a replay", "receipt": "of an erasure", "verb": "that was asked for over HTTP",
}

func TestEveryLogLineHasKnownKeys(t *testing.T) {
	used := map[string]string{}
	calls := 0
	for _, s := range sources(t) {
		if s.test || strings.HasPrefix(s.room, "poller/sandbox") || strings.HasPrefix(s.room, "poller/schedule") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), filepath.Join(top, s.path), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				keys, logs := keysOf(t, s.path, call)
				if logs {
					calls++
				}
				for _, k := range keys {
					used[k] = s.path
				}
			}
			return true
		})
	}
	if calls < 80 {
		t.Fatalf("only %d calls found: looked for the wrong thing", calls)
	}
	for k, path := range used {
		if logKeys[k] == "" {
			t.Errorf("%s: a log line has the key %q, which is not in the list; is there a word for it already?", path, k)
		}
	}
	for k := range maps.Keys(logKeys) {
		if used[k] == "" {
			t.Errorf("no log line has the key %q", k)
		}
	}
}

// keysOf are the keys of a call of a logger, and whether it is one.
func keysOf(t *testing.T, path string, call *ast.CallExpr) (keys []string, logs bool) {
	t.Helper()
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return nil, false
	}
	if from, ok := f.X.(*ast.Ident); ok && from.Name == "slog" {
		if slices.Contains([]string{"String", "Int", "Any", "Duration", "Time", "Bool"}, f.Sel.Name) {
			return []string{literal(call.Args[0])}, true
		}
		return nil, false
	}
	first := map[string]int{"Debug": 1, "Info": 1, "Warn": 1, "Error": 1, "With": 0}
	at, known := first[f.Sel.Name]
	if !known || len(call.Args) <= at || at == 1 && literal(call.Args[0]) == "" || !isLogger(f.X) {
		return nil, known && isLogger(f.X)
	}
	if call.Ellipsis.IsValid() {
		t.Errorf("%s: the keys of a log line cannot be read", path)
	}
	for n := at; n < len(call.Args); n += 2 {
		if _, attr := call.Args[n].(*ast.CallExpr); attr { // hint(err), slog.String(…)
			n--
			continue
		}
		keys = append(keys, literal(call.Args[n]))
	}
	return keys, true
}

// isLogger knows a logger by its name.
func isLogger(x ast.Expr) bool {
	switch x := x.(type) {
	case *ast.Ident:
		return slices.Contains([]string{"log", "about"}, x.Name)
	case *ast.SelectorExpr:
		return slices.Contains([]string{"log", "loud", "Log", "Logger"}, x.Sel.Name)
	case *ast.CallExpr:
		f, ok := x.Fun.(*ast.SelectorExpr)
		return ok && f.Sel.Name == "With" && isLogger(f.X)
	}
	return false
}

func literal(x ast.Expr) string {
	if l, ok := x.(*ast.BasicLit); ok {
		text, _ := strconv.Unquote(l.Value)
		return text
	}
	return ""
}
