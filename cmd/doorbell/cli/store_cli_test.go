package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"
	"doorbell/store"
)

func TestADamagedStoreIsToldApartAndLeftAlone(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100")
	kept, err := store.Open(store.Options{Dir: s.Dir, BaseURL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	kept.Close()
	path := filepath.Join(s.Dir, daemon.StoreFile)
	whole := readText(t, path)
	for name, c := range map[string]struct {
		text string
		code int
		says string
	}{
		"zeroed":  {strings.Repeat("\x00", 8192) + whole[8192:], exit.CodeIO, "backup"},
		"cut":     {whole[:9000], exit.CodeIO, "it is cut off"},
		"not one": {strings.Repeat("nonsense", 4000), exit.CodeIO, "invalid database"},
	} {
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, command := range []string{"verify", "run", "status"} {
			got := doorbelltest.Run(t, s.Environ, command)
			if got.Code != c.code || !strings.Contains(got.Stderr, c.says) || !strings.Contains(got.Stderr, path) {
				t.Errorf("%s: %s: exit code %d, %s, want %d, %s", name, command, got.Code, got.Stderr, c.code, c.says)
			}
		}
		if got := doorbelltest.Run(t, s.Environ, "verify", "--file", path); got.Code != exit.CodeIO {
			t.Errorf("%s: --file: %+v", name, got)
		}
		if readText(t, path) != c.text {
			t.Errorf("%s: it was touched", name)
		}
	}
	if got := doorbelltest.Run(t, s.Environ, "verify", "--file", filepath.Join(s.Dir, "none")); got.Code != exit.CodeFailed {
		t.Errorf("%+v", got)
	}
}
