package store

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"
)

// Report is what Verify found.
type Report struct {
	Path            string    `json:"path"`
	StoreID         string    `json:"storeId"`
	BaseURL         string    `json:"baseUrl"`
	Schema          int       `json:"schema"`
	Created         time.Time `json:"created"`
	Copied          time.Time `json:"copied,omitzero"` // when this copy was made; zero: it is no copy
	Bytes           int64     `json:"bytes"`
	Agencies        int       `json:"agencies"`
	Insertions      int       `json:"insertions"`
	ContactRequests int       `json:"contactRequests"`
	Events          int       `json:"events"`
	// Torn: one of the two heads of the file cannot be read. It is among the findings.
	Torn bool `json:"torn,omitempty"`
	// Findings are what is wrong, a sentence each, without anything about a person. None: the file is sound.
	Findings []string `json:"findings,omitempty"`
	// More counts the findings beyond those.
	More int `json:"more,omitempty"`
}

// mostFindings bounds what a report tells.
const mostFindings = 100

func (r *Report) find(format string, args ...any) {
	if len(r.Findings) >= mostFindings {
		r.More++
		return
	}
	r.Findings = append(r.Findings, fmt.Sprintf(format, args...))
}

// Verify reads a store's whole file and says what is wrong with it: its pages as bbolt sees them, the seal of every value, the
// logs and cursors. Nothing is changed. A file that is no store or cannot be read as one is an error: ErrDamaged, ErrEmpty,
// ErrNewer, ErrForeign, fs.ErrNotExist; one that is open to be written elsewhere is a LockedError.
//
// A damaged file can end the process that looks at it, or hold it up for ever: bbolt follows pages in goroutines of its own, and
// in circles. It belongs into a process of which nothing else depends; that is why others take a Verifier.
func Verify(ctx context.Context, path string) (r Report, err error) {
	r.Path = path
	info, err := os.Stat(path)
	if err != nil {
		return r, fmt.Errorf("store: %w", err)
	}
	if r.Bytes = info.Size(); r.Bytes == 0 {
		return r, damaged(path, "it is empty")
	}
	db, err := openAsItIs(path, 2*time.Second, false) // from here on nobody writes
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	f, err := os.Open(path)
	if err != nil {
		return r, fmt.Errorf("store: %w", err)
	}
	defer f.Close()
	if _, whole := readHeads(f); whole < 2 {
		r.Torn = true
		r.find("one of the two heads of the file is unreadable: what was committed last may be missing")
	}
	s := newStore(db, path, time.Now)
	if err := s.recognise(Options{Restored: true}, ""); err != nil {
		return r, err
	}
	r.StoreID, r.BaseURL, r.Schema, r.Created, r.Copied = s.meta.StoreID, s.meta.BaseURL, s.meta.Schema, s.meta.Created, s.meta.Copied
	return r, s.View(func(tx *Tx) error {
		problems := 0
		for range tx.tx.Check() {
			problems++
		}
		if problems > 0 {
			r.find("pages of the file contradict each other: %d problems", problems)
			return nil // what is read through such pages says nothing
		}
		v := &verifier{ctx: ctx, tx: tx, r: &r, logs: map[string]span{}, most: r.Bytes}
		return v.values()
	})
}

// Verifier is Verify, or what does the same in another process.
type Verifier func(ctx context.Context, path string) (Report, error)

// Damage is the error of a report with findings that forbid to go on with the store. That the head of the last commit is torn
// is none: so a power cut leaves a file, and what was not committed was not.
func (r Report) Damage() error {
	if len(r.Findings) == 0 || r.Torn && len(r.Findings) == 1 {
		return nil
	}
	return damaged(r.Path, r.Findings[len(r.Findings)-1])
}
