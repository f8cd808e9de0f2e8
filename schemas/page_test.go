package schemas_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"doorbell/schemas"
)

// TestThePageShowsTheProgramsThatAreRun: what people copy is what cmd/doorbell's tests run.
func TestThePageShowsTheProgramsThatAreRun(t *testing.T) {
	page := readText(t, "README.md")
	shown := regexp.MustCompile("(?s)```(go|js|sh)\n(.*?)```").FindAllStringSubmatch(page, -1)
	files := []string{"leads.go", "mirror.mjs", "alive.mjs", "commands.sh"}
	if len(shown) != len(files) {
		t.Fatalf("the page shows %d programs, want %d", len(shown), len(files))
	}
	for i, name := range files {
		if shown[i][2] != readText(t, filepath.Join("interop", name)) {
			t.Errorf("the page shows another %s", name)
		}
		if !strings.Contains(page, "(interop/"+name+")") {
			t.Errorf("the page does not name %s", name)
		}
	}
}

func TestEveryLinkOfThePageResolves(t *testing.T) {
	page := readText(t, "README.md")
	for _, link := range regexp.MustCompile(`\]\(([^)]+)\)`).FindAllStringSubmatch(page, -1) {
		if strings.HasPrefix(link[1], "https://") {
			continue
		}
		if _, err := os.Stat(filepath.FromSlash(link[1])); err != nil {
			t.Errorf("%s leads nowhere", link[1])
		}
	}
	types := strings.Join(schemas.Types(), " ")
	for _, known := range schemas.Types() {
		if !strings.Contains(page, "`"+known+"`") {
			t.Errorf("the page does not name %s", known)
		}
	}
	for _, named := range regexp.MustCompile("`((?:insertion|contact_request|access|watch)\\.[a-z_]+)`").FindAllStringSubmatch(page, -1) {
		if !strings.Contains(types, named[1]) {
			t.Errorf("the page speaks of %s", named[1])
		}
	}
	if !strings.Contains(readText(t, "../README.md"), "(schemas/README.md)") {
		t.Error("nothing links to the page")
	}
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
