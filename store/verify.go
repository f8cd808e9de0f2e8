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

// Verify reads a store's whole file and says what is wrong with it: its pages as bbolt sees them, every value, the logs and
// cursors. Nothing is changed. A file that is no store or cannot be read as one is an error: ErrDamaged, ErrNewer,
// fs.ErrNotExist; one that is open to be written elsewhere is a LockedError.
func Verify(ctx context.Context, path string) (r Report, err error) {
	r.Path = path
	if info, err := os.Stat(path); err != nil {
		return r, fmt.Errorf("store: %w", err)
	} else if info.Size() == 0 {
		return r, damaged(path, "it is empty")
	}
	db, err := openAsItIs(path, 2*time.Second, false) // reads the head only; from here on nobody writes
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	if err := r.readPages(path); err != nil {
		return r, err
	}
	s := &Store{db: db, path: path, now: time.Now, damaged: make(chan struct{})}
	if err := s.recognise(Options{Restored: true}, ""); err != nil {
		return r, err
	}
	r.StoreID, r.BaseURL, r.Schema, r.Created, r.Copied = s.meta.StoreID, s.meta.BaseURL, s.meta.Schema, s.meta.Created, s.meta.Copied
	return r, s.View(func(tx *Tx) (err error) {
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

// readPages looks at the file as bytes, so that bbolt finds nothing there that ends the process.
func (r *Report) readPages(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return fmt.Errorf("store: %w", err)
	}
	r.Bytes = info.Size()
	h, both, err := readHeads(f)
	if err != nil {
		return damaged(path, err.Error())
	}
	if err := h.refuse(path, r.Bytes); err != nil {
		return err
	}
	if err := walkPages(f, h); err != nil {
		return damaged(path, err.Error())
	}
	if !both {
		r.find("one of the two heads of the file is unreadable: what was committed last may be missing")
	}
	return nil
}
