package store

import (
	"path/filepath"
	"reflect"
	"testing"
	"time"
)

func TestWhoHasTheReportIsKnownToWhoeverTakesOver(t *testing.T) {
	o := Options{Dir: t.TempDir(), BaseURL: "https://api.example.com"}
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if r, err := s.Reported(); err != nil || !r.Week.IsZero() {
		t.Errorf("a new store has reported %+v, %v", r, err)
	}
	urgent := 0
	s.OnUrgent(func() { urgent++ })
	want := Reported{Week: time.Date(2026, 11, 23, 6, 0, 0, 0, time.UTC), To: []string{"a"}}
	if err := s.SetReported(want); err != nil || urgent != 1 {
		t.Errorf("%v, copied %d times", err, urgent)
	}
	dir := t.TempDir()
	if err := s.CopyUnpublished(filepath.Join(dir, fileName)); err != nil {
		t.Fatal(err)
	}
	if err := Adopt(filepath.Join(dir, fileName)); err != nil {
		t.Fatal(err)
	}
	other, err := Open(Options{Dir: dir, BaseURL: o.BaseURL})
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if got, err := other.Reported(); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("taken over: %+v, %v", got, err)
	}
}
