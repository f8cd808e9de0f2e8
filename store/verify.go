package store

import (
	"bytes"
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
	Bytes           int64     `json:"bytes"`
	Agencies        int       `json:"agencies"`
	Insertions      int       `json:"insertions"`
	ContactRequests int       `json:"contactRequests"`
	Events          int       `json:"events"`
	// Findings are what is wrong, a sentence each, without anything about a person. None: the file
	// is sound. There may be more than are listed.
	Findings []string `json:"findings,omitempty"`
}

// mostFindings bounds what a report lists.
const mostFindings = 100

func (r *Report) find(format string, args ...any) {
	if len(r.Findings) < mostFindings {
		r.Findings = append(r.Findings, fmt.Sprintf(format, args...))
	}
}

// Damage is the error of a report with findings.
func (r Report) Damage() error {
	if len(r.Findings) == 0 {
		return nil
	}
	return damaged(r.Path, r.Findings[0])
}

// Verify reads a store's whole file and reports what is wrong with it: the checksum and form of
// every value, the cursor, and its pages as bbolt sees them. Nothing is changed. A file that is no
// store or cannot be read as one is an error: ErrDamaged, ErrEmpty, ErrNewer, ErrForeign,
// fs.ErrNotExist; one that is open to be written elsewhere is a LockedError.
func Verify(ctx context.Context, path string) (r Report, err error) {
	r.Path = path
	info, err := os.Stat(path)
	if err != nil {
		return r, fmt.Errorf("store: %w", err)
	}
	if r.Bytes = info.Size(); r.Bytes == 0 {
		return r, damaged(path, "it is empty")
	}
	s, err := openFile(path, Options{}, true)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, s.db.Close()) }()
	r.StoreID, r.BaseURL, r.Schema, r.Created = s.meta.StoreID, s.meta.BaseURL, s.meta.Schema,
		s.meta.Created
	return r, s.View(func(tx *Tx) error {
		for _, name := range buckets {
			if err := tx.verify(ctx, name, &r); err != nil {
				return err
			}
		}
		if len(r.Findings) > 0 {
			return nil
		}
		if c, last := tx.cursor(), tx.lastPosition(); max(c.Position, c.Highest) > last {
			r.find("the cursor is at %d, and the log ends with %d", max(c.Position, c.Highest), last)
		}
		problems := 0
		// last: it runs where no fault becomes an error, and by now every page was read
		for range tx.tx.Check() {
			problems++
		}
		if problems > 0 {
			r.find("pages of the file contradict each other (%d)", problems)
		}
		return nil
	})
}

// verify reads every entry of a bucket. The error is that of the context.
func (tx *Tx) verify(ctx context.Context, name []byte, r *Report) error {
	most := r.Bytes // more entries than the file has room for
	c := tx.bucket(name).Cursor()
	for k, value := c.First(); k != nil; k, value = c.Next() {
		if most--; most < 0 {
			panic(damagef("its pages form a loop"))
		}
		if most%1000 == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		agency, _, _ := bytes.Cut(k, []byte{0})
		if bytes.Equal(name, bucketLog) {
			agency = nil
		}
		if payload, sound := payloadOf(name, k, value); sound {
			r.count(name, k, payload)
		} else {
			r.find("an entry of %s of agency %q is not what was written", name,
				agency[:min(len(agency), 64)])
		}
	}
	return nil
}

// count decodes an entry, which ends the verification where that fails, and counts it.
func (r *Report) count(name, k, payload []byte) {
	switch string(name) {
	case string(bucketAgencies):
		decodeJSON[Agency](name, payload)
		r.Agencies++
	case string(bucketInsertions):
		decodeInsertion("", payload)
		r.Insertions++
	case string(bucketContacts):
		r.ContactRequests += len(decodeContactRequests(payload))
	case string(bucketLog):
		entry(k, payload).event()
		r.Events++
	}
}
