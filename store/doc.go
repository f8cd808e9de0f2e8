// Package store is doorbell's memory: one bbolt file, doorbell.db, in the data directory. It
// contains, for each agency,
//
//   - the snapshot: what was last seen of its insertions and contact requests, what was learned
//     about the API's responses, and its alarms, failures and halts,
//   - the event log: every event that followed from that, also those that the stream has not taken
//     yet,
//   - the cursor: how far the log is published.
//
// A change and its events are one transaction. Callers change the snapshot and append events inside
// one Update; when it returns nil, all of that is on disk, otherwise none of it is. There is no
// other way to write.
//
//	err := s.Update(func(tx *store.Tx) error {
//		if err := tx.PutInsertion("A100", ins); err != nil {
//			return err
//		}
//		_, err := tx.Append(event)
//		return err
//	})
//
// The event log is one list for all agencies. An appended event gets a position in it, which only
// ever rises. Published events stay for a while (Trim).
//
// If the function of an Update returns an error, nothing changes. A commit that fails may have
// happened: from then on View and Update return its error (Failed), and the process must be
// restarted to read the file again. Reads return no errors of their own: damage ends the
// transaction.
//
// People's data is in the event log alone. Erase takes the person out of events, which keep their
// positions and ids. The snapshot remembers whom Erase has erased, so that no poll brings the
// person back. What bbolt has overwritten stays in free pages until the next start, which compacts
// the file.
//
// bbolt has no checksums, so every value has one (tx.go). If it does not match, or a page is
// malformed, View and Update return an ErrDamaged, and nothing is read or written any more
// (Failed). A key that a flipped byte hides is not missed: what the snapshot has lost is learned
// again, and the stream takes no event twice. Verify reads a whole file.
//
// Two kinds of damage end the process, because bbolt follows them before there is a value to check:
// branch pages that form a cycle (stack overflow), and a huge length of an entry beside one that is
// written (out of memory). Nothing is written then.
//
// The store knows neither HTTP nor NATS, nor what a field means. The snapshot has no content of a
// contact request, only what identifies it: its id, a fingerprint and digests.
//
// Keys of the snapshot begin with the agency (agency 0x00 reference).
package store
