package store

import (
	"context"
	"errors"
)

// convertGroups is how many insertions' contact requests take the new form in one transaction, convertEntries after how many
// of them it ends earlier.
const (
	convertGroups  = 100
	convertEntries = 1000
)

// convertOld gives what an older version has left of contact requests today's form, in small transactions.
func (s *Store) convertOld(ctx context.Context) error {
	for {
		left := false
		err := s.View(func(tx *Tx) error {
			k, _ := tx.bucket(bucketContactRequests).Cursor().First()
			left = k != nil
			return nil
		})
		if err = errors.Join(err, ctx.Err()); err != nil || !left {
			return err
		}
		if err := s.update((*Tx).convertSome); err != nil {
			return err
		}
	}
}

func (tx *Tx) convertSome() error {
	b := tx.bucket(bucketContactRequests)
	entries := 0
	for range convertGroups {
		k, _ := b.Cursor().First()
		if k == nil {
			return nil
		}
		at, ok := parts(k, 3)
		if !ok {
			return damaged(tx.store.path, "a contact request has an unreadable key")
		}
		g, err := tx.group(at[0], at[1])
		if err != nil {
			return err
		}
		if err := tx.write(g); err != nil { // with all that is old of it
			return err
		}
		delete(tx.groups, string(g.below))
		if entries += len(g.old); entries > convertEntries {
			return nil
		}
	}
	return nil
}
