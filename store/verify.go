package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
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
	Bytes           int64     `json:"bytes"`
	Agencies        int       `json:"agencies"`
	Insertions      int       `json:"insertions"`
	ContactRequests int       `json:"contactRequests"`
	Events          int       `json:"events"`
	// Torn: one of the two heads of the file cannot be read. It is not counted as a finding; see Store.Torn.
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
	if r.Torn, err = readThrough(path); err != nil {
		return r, err
	}
	s := newStore(db, path, time.Now)
	if err := s.identify(Options{}); err != nil {
		return r, err
	}
	r.StoreID, r.BaseURL, r.Schema, r.Created = s.meta.StoreID, s.meta.BaseURL, s.meta.Schema, s.meta.Created
	return r, s.View(func(tx *Tx) error {
		problems := 0
		for range tx.tx.Check() {
			problems++
		}
		if problems > 0 {
			r.find("pages of the file contradict each other (%d)", problems)
			return nil // what is read through such pages says nothing
		}
		v := &verifier{ctx: ctx, tx: tx, r: &r, most: r.Bytes}
		return v.values()
	})
}

// Verifier is Verify, or what does the same in another process.
type Verifier func(ctx context.Context, path string) (Report, error)

// Damage is the error of a report with findings.
func (r Report) Damage() error {
	if len(r.Findings) == 0 {
		return nil
	}
	return damaged(r.Path, r.Findings[0])
}

// readThrough reads a file from its begin to its end, which a disk does at once what it does slowly page by page, and says whether
// one of its heads is torn.
func readThrough(path string) (torn bool, err error) {
	f, err := os.Open(path)
	if err == nil {
		defer f.Close()
		_, err = io.Copy(io.Discard, f)
	}
	if err != nil {
		return false, fmt.Errorf("store: %w", err)
	}
	_, whole := readHeads(f)
	return whole < 2, nil
}

// verifier holds every entry of a store against its seal, and the cursor against the log.
type verifier struct {
	ctx  context.Context
	tx   *Tx
	r    *Report
	most int64 // entries that the file has room for
}

// values reads bucket after bucket. The error is that of the context.
func (v *verifier) values() error {
	count := func(n *int) func(k, payload []byte) { return func(_, _ []byte) { *n++ } }
	visits := map[string]func(k, payload []byte){
		string(bucketAgencies): count(&v.r.Agencies), string(bucketInsertions): count(&v.r.Insertions),
		string(bucketContacts): v.contacts, string(bucketLog): v.log,
	}
	for _, name := range buckets {
		if err := v.each(name, visits[string(name)]); err != nil {
			return err
		}
	}
	if len(v.r.Findings) == 0 {
		v.cursor()
	}
	return nil
}

// each visits the entries of a bucket whose seal holds, and says which do not.
func (v *verifier) each(name []byte, visit func(k, payload []byte)) error {
	c := v.tx.bucket(name).Cursor()
	var before []byte
	for k, value := c.First(); k != nil; k, value = c.Next() {
		if v.most--; v.most < 0 {
			panic(damagef("its pages lead in a circle"))
		}
		if v.most%1000 == 0 && v.ctx.Err() != nil {
			return v.ctx.Err()
		}
		switch {
		case !holds(name, before, k, value):
			v.r.find("an entry of %s of agency %q does not hold what was written, or the one before it is missing", name, agencyOf(k))
		case visit != nil && !bytes.Equal(k, endMark):
			visit(k, value[sealSize:])
		}
		before = k
	}
	if !bytes.Equal(before, endMark) {
		v.r.find("the end of %s is missing", name)
	}
	return nil
}

// agencyOf is the agency that a key begins with, as far as a finding has room for it.
func agencyOf(k []byte) string {
	agency, _, _ := bytes.Cut(k, []byte{0})
	return string(agency[:min(len(agency), 64)])
}

func (v *verifier) contacts(_, payload []byte) {
	r := &reader{b: payload}
	v.r.ContactRequests += r.int()
}

func (v *verifier) log(k, payload []byte) {
	v.r.Events++
	if agency, _, found := bytes.Cut(payload, []byte{0}); len(k) != 8 || !found {
		v.r.find("an entry of %s of agency %q is too short", bucketLog, agency[:min(len(agency), 64)])
	}
}

// cursor holds the cursor against the log.
func (v *verifier) cursor() {
	c, last := v.tx.cursor(), v.tx.lastPosition()
	if c.Position > last || c.Highest > last {
		v.r.find("the cursor is at %d, and the log ends with %d", max(c.Position, c.Highest), last)
	}
}
