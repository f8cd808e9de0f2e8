// Package store remembers. It owns one bbolt file, doorbell.db, in the data directory: what was last seen of each agency
// (its snapshot), every event that followed from it (the event log), how far the log is published (a cursor per agency)
// and what we must not ask for any more (halts).
//
// Its promise is that state and its events change together: a caller changes the snapshot and appends events inside one
// Update, and either all of it is on disk when Update returns nil, or nothing is. There is no other way to write. An
// appended event gets a position, which counts per agency. It gets its sequence when the stream has taken it (Publish), and
// never another one. A log keeps published events for a while and is then trimmed from its front (Trim).
//
//	err := s.Update(func(tx *store.Tx) error {
//		if err := tx.PutInsertion("A100", ins); err != nil {
//			return err
//		}
//		_, err := tx.Append(event)
//		return err
//	})
//
// What an error of Update means decides what the caller may do next: an error of the function itself changed nothing;
// ErrNoSpace changed nothing and may be tried again; any other is an ErrUnknownOutcome, after which the process has to
// end, because the commit may have happened.
//
// Every value is sealed with a checksum that chains it to its neighbours, so that a byte that the disk has changed is never read
// as something else, nor as something that is not there: it is an ErrDamaged, also while others read, and after it nothing is
// read or written any more (Damaged). Verify says what is wrong with a file; a damaged one can end the process that looks at all
// of it, so others let it look in a process of its own. Where the head of the last commit is unreadable, the commit before it is
// what is there (Accepted.Torn).
//
// Two kinds of damage end even a process that has the file open, because bbolt itself follows them before there is a value to look
// at: a branch page that has come to lead in a circle ends it as a stack overflow, and an entry beside one that is written, of
// which the length has become huge, for want of memory. Nothing is written by that, and the next start says what it was.
//
// The store knows no HTTP and no NATS, and not what a field means. It never holds a contact request's content, only what
// it takes to know it again: its id, a fingerprint and digests.
//
// All keys are composite and ordered (agency 0x00 reference), the contact requests of an insertion lie a few to an entry
// (0x00 number), and nothing is global where per agency will do, so an
// agency could move to another file whole.
package store
