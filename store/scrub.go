package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// What is deleted or overwritten stays in the file: bbolt writes what changes into other pages and takes the old ones for free, which
// keep what they held until something else is written there. Scrub overwrites them.
//
// It does so in write transactions, before anything is changed in them. Until then the pages that are free or will be are those that
// the head of the last commit does not lead to, and nobody else gives or takes one. Who reads may still be in a tree of before that
// commit. So it is done while nobody reads: whoever begins then reads what the head leads to.
//
// The other head, that of the commit before, leads to pages that are overwritten. Any commit does that to it, and then takes its place. So
// each of these transactions is committed, though it has changed nothing: then the older head is one that nothing was taken from, and
// the file may do without the newer one again. Before the new head is written, the commit brings the zeros to the disk.

// scrubLooks and scrubWrites are how many pages one transaction looks at and overwrites: others wait for it.
const (
	scrubLooks  = 8192
	scrubWrites = 512
)

// scrubPause is how long Scrub waits for those who read, and the least that it leaves to those who write.
const scrubPause = 5 * time.Millisecond

var errReading = errors.New("somebody reads")

// Scrub overwrites with zeros what the file holds and does not use, so that what was erased, trimmed or overwritten before the call is
// in it no more. Others read and write meanwhile. It waits as long as somebody reads, so also for the end of a Backup.
//
// An error of ctx, or ErrNoSpace (of a file system that overwrites nothing in place), leaves a part undone; the next call begins anew, and
// passes quickly over what holds zeros. After ErrUnknownOutcome or ErrDamaged the process has to end. What such a file system, a disk
// that moves blocks, or a copy of the file holds is out of reach.
func (s *Store) Scrub(ctx context.Context) error {
	for page := 2; ; { // behind the heads
		began := time.Now()
		next, err := s.scrubSome(page)
		switch {
		case errors.Is(err, errReading):
		case err != nil || next == 0:
			return err
		default:
			page = next
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(max(time.Since(began), scrubPause)):
		}
	}
}

// scrubSome overwrites free pages from one on, and says where to go on; 0 at the end of the file.
func (s *Store) scrubSome(page int) (next int, err error) {
	err = s.update(func(tx *Tx) error {
		if s.reading.Load() > 0 {
			return errReading
		}
		next, err = tx.scrub(page)
		return err
	})
	return next, err
}

func (tx *Tx) scrub(page int) (next int, err error) {
	file, size := tx.store.file, int64(tx.store.db.Info().PageSize)
	info, err := file.Stat()
	if err != nil {
		return 0, fmt.Errorf("store: %w", err)
	}
	found, zeros := make([]byte, size), make([]byte, size)
	written := 0
	for next = page; int64(next)*size < info.Size(); next++ {
		if next-page == scrubLooks || written == scrubWrites {
			return next, nil
		}
		if p, err := tx.tx.Page(next); err != nil || p != nil && p.Type != "free" { // nil: behind all that are used
			if err != nil {
				return 0, fmt.Errorf("store: %w", err)
			}
			continue
		}
		n, err := file.ReadAt(found, int64(next)*size)
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, fmt.Errorf("store: %w", err)
		}
		if bytes.Equal(found[:n], zeros[:n]) {
			continue
		}
		if _, err := file.WriteAt(zeros[:n], int64(next)*size); err != nil {
			return 0, commitError(err)
		}
		written++
	}
	return 0, nil
}
