package cli

import (
	"errors"
	"go/build"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const top = "../../.."

// TestEveryPackageImportsOnlyWhatItMay reads the table of .github/AGENTS.md. What a package must not
// know, it cannot come to depend on: events can be decoded without NATS, the poller runs without an
// environment, the sandbox cannot share the client's misunderstandings.
func TestEveryPackageImportsOnlyWhatItMay(t *testing.T) {
	may := map[string][]string{}
	for line := range strings.Lines(readText(t, filepath.Join(top, ".github", "AGENTS.md"))) {
		if cells := strings.Split(strings.TrimSpace(line), "|"); len(cells) == 4 && strings.Contains(cells[1], "`") {
			may[strings.Trim(cells[1], " `")] = strings.FieldsFunc(cells[2], func(r rune) bool { return strings.ContainsRune("`, ", r) })
		}
	}
	found := 0
	err := filepath.WalkDir(top, func(dir string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || dir == top {
			return err
		}
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil || d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") {
			return filepath.SkipDir // not of this module
		}
		p, err := build.ImportDir(dir, 0)
		if errors.As(err, new(*build.NoGoError)) {
			return nil
		}
		found++
		name, _ := filepath.Rel(top, dir)
		mayImport(t, filepath.ToSlash(name), p.Imports, may)
		return err
	})
	if err != nil || found < 20 {
		t.Errorf("%d packages: %v", found, err)
	}
}

func mayImport(t *testing.T, name string, imports []string, may map[string][]string) {
	t.Helper()
	allowed, known := may[name]
	if !known {
		t.Errorf("the table of .github/AGENTS.md has no package %s", name)
	}
	for _, imported := range imports {
		ours, is := strings.CutPrefix(imported, "doorbell/")
		first, _, _ := strings.Cut(imported, "/")
		switch {
		case is && strings.HasSuffix(ours, "test") && !strings.HasSuffix(name, "test"):
			t.Errorf("%s must not import %s, which is for tests", name, ours)
		case is && !slices.Contains(allowed, ours) && !slices.Contains(allowed, "everything"):
			t.Errorf("%s must not import %s", name, ours)
		case !is && name == "events" && strings.Contains(first, "."):
			t.Errorf("events must not import %s: every program that decodes an event would need it", imported)
		case name == "poller/watch" && slices.Contains([]string{"sync", "log/slog", "math/rand/v2"}, imported):
			t.Errorf("%s must not import %s: it decides by its arguments alone", name, imported)
		}
	}
}
