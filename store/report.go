package store

import "time"

var keyReported = []byte("reported")

// Reported is which report of a week was sent last, and to whom.
type Reported struct {
	Week time.Time `json:"week"`          // its end; zero: none yet
	All  bool      `json:"all,omitempty"` // all recipients have it
	To   []string  `json:"to,omitempty"`  // recipients that have it, as long as others do not
}

// Reported returns what SetReported wrote last.
func (s *Store) Reported() (Reported, error) {
	return read(s, func(tx *Tx) Reported {
		r, _ := getJSON[Reported](tx, bucketMeta, keyReported)
		return r
	})
}

// SetReported remembers which report was sent. It is urgent, or a process that takes over would
// send it again.
func (s *Store) SetReported(r Reported) error {
	return s.Update(func(tx *Tx) error {
		tx.urgent = true
		return tx.putJSON(bucketMeta, keyReported, r)
	})
}
