package store_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"doorbell/store"
)

// attempt opens a store and closes it again.
func attempt(o store.Options) (id, base string, err error) {
	s, err := store.Open(o)
	if err != nil {
		return "", "", err
	}
	return s.ID(), s.BaseURL(), s.Close()
}

func TestWhatIsFoundInTheDataDirectoryIsAcceptedOnlyWhenSaid(t *testing.T) {
	for _, c := range []struct {
		name    string
		prepare func(t *testing.T, dir, backup string)
		names   string // the flag that accepts it
		accept  store.Options
	}{
		{"a backup in its own place", func(t *testing.T, dir, backup string) {
			write(t, filepath.Join(dir, "doorbell.db"), contents(t, filepath.Dir(backup))["copy.db"])
		}, "run --restored", store.Options{Restored: true}},
		{"a backup in a new place", func(t *testing.T, dir, backup string) {
			write(t, filepath.Join(dir, "doorbell.db"), contents(t, filepath.Dir(backup))["copy.db"])
			remove(t, filepath.Join(dir, "store-id"))
		}, "run --restored", store.Options{Restored: true}},
		{"another store", func(t *testing.T, dir, backup string) {
			write(t, filepath.Join(dir, "store-id"), "somebodyelse\n")
		}, "run --restored", store.Options{Restored: true}},
		{"a store without the store-id that was beside it", func(t *testing.T, dir, _ string) {
			remove(t, filepath.Join(dir, "store-id"))
		}, "run --restored", store.Options{Restored: true}},
		{"an API elsewhere", func(t *testing.T, dir, backup string) {
			other := t.TempDir()
			if _, _, err := attempt(store.Options{Dir: other, BaseURL: "https://old.example.org"}); err != nil {
				t.Fatal(err)
			}
			for name, text := range contents(t, other) {
				write(t, filepath.Join(dir, name), text)
			}
		}, "run --moved", store.Options{Moved: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, backup := t.TempDir(), filepath.Join(t.TempDir(), "copy.db")
			s := open(t, dir)
			if _, err := store.ReceiveBackup(t.Context(), backup, false, store.Verify, into(s)); err != nil {
				t.Fatal(err)
			}
			s.Close()
			c.prepare(t, dir, backup)
			before := contents(t, dir)
			_, _, err := attempt(store.Options{Dir: dir, BaseURL: baseURL})
			if !errors.Is(err, store.ErrForeign) || !strings.Contains(err.Error(), c.names) {
				t.Fatalf("got %v, which should name %s", err, c.names)
			}
			if _, err := store.OpenReadOnly(store.Options{Dir: dir, BaseURL: baseURL}); !errors.Is(err, store.ErrForeign) {
				t.Errorf("to be read: %v", err)
			}
			after := contents(t, dir)
			if len(before) != len(after) || before["doorbell.db"] != after["doorbell.db"] || before["store-id"] != after["store-id"] {
				t.Error("a refused store was changed")
			}
			c.accept.Dir, c.accept.BaseURL = dir, baseURL
			id, base, err := attempt(c.accept)
			if err != nil || base != baseURL || strings.TrimSpace(contents(t, dir)["store-id"]) != id {
				t.Fatalf("accepted: %v, store %s of %s", err, id, base)
			}
			if again, _, err := attempt(store.Options{Dir: dir, BaseURL: baseURL}); err != nil || again != id {
				t.Errorf("the next start: %v, store %s, was %s", err, again, id)
			}
		})
	}
}

func TestEachFlagAcceptsOnlyWhatItSays(t *testing.T) {
	dir := t.TempDir()
	open(t, dir).Close()
	if _, _, err := attempt(store.Options{Dir: dir, BaseURL: "https://new.example.org", Restored: true}); !errors.Is(err, store.ErrForeign) {
		t.Errorf("restored took another API: %v", err)
	}
	write(t, filepath.Join(dir, "store-id"), "somebodyelse\n")
	if _, _, err := attempt(store.Options{Dir: dir, BaseURL: baseURL, Moved: true}); !errors.Is(err, store.ErrForeign) {
		t.Errorf("moved took another store: %v", err)
	}
	remove(t, filepath.Join(dir, "doorbell.db"))
	if _, _, err := attempt(store.Options{Dir: dir, BaseURL: baseURL, Restored: true}); !errors.Is(err, store.ErrForeign) || !strings.Contains(err.Error(), "run --fresh") {
		t.Errorf("restored made a new store: %v", err)
	}
	write(t, filepath.Join(dir, "store-id"), "")
	if _, _, err := attempt(store.Options{Dir: dir, BaseURL: baseURL}); err != nil {
		t.Error(err)
	}
}

func TestWhatIsThereIsSetAsideToBeginAnew(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, dir string){
		"sound":     func(t *testing.T, dir string) {},
		"damaged":   func(t *testing.T, dir string) { write(t, filepath.Join(dir, "doorbell.db"), "nonsense") },
		"truncated": func(t *testing.T, dir string) { write(t, filepath.Join(dir, "doorbell.db"), "") },
		"lost":      func(t *testing.T, dir string) { remove(t, filepath.Join(dir, "doorbell.db")) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			now := func() time.Time { return era }
			was, _, err := attempt(store.Options{Dir: dir, BaseURL: "https://old.example.org"})
			if err != nil {
				t.Fatal(err)
			}
			spoil(t, dir)
			before := contents(t, dir)
			id, base, err := attempt(store.Options{Dir: dir, BaseURL: baseURL, Fresh: true, Now: now})
			if err != nil || id == was || base != baseURL {
				t.Fatalf("%v: store %s of %s, was %s", err, id, base, was)
			}
			after := contents(t, dir)
			for name, text := range before {
				if aside, ok := after[name+".20261120T090000.000Z"]; !ok || aside != text {
					t.Errorf("%s is not set aside as it was: %v", name, ok)
				}
			}
			if _, _, err := attempt(store.Options{Dir: dir, BaseURL: baseURL, Fresh: true, Now: now}); err == nil {
				t.Error("what was set aside was overwritten")
			}
		})
	}
}

func TestAStoreThatIsOpenIsNotSetAside(t *testing.T) {
	dir := t.TempDir()
	open(t, dir)
	before := contents(t, dir)
	var locked *store.LockedError
	_, _, err := attempt(store.Options{Dir: dir, BaseURL: baseURL, Fresh: true, LockTimeout: 60 * time.Millisecond})
	if !errors.As(err, &locked) || locked.PID != os.Getpid() || len(contents(t, dir)) != len(before) {
		t.Errorf("got %v", err)
	}
	if _, _, err := attempt(store.Options{Dir: t.TempDir(), BaseURL: baseURL, Fresh: true}); err != nil {
		t.Errorf("where nothing is: %v", err)
	}
}

func remove(t *testing.T, path string) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
}
