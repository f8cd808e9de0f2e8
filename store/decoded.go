package store

import "sync/atomic"

// decoded keeps of one agency what stands decoded in the values that every poll reads and that seldom change. It is shared: who
// changes it makes a copy.
//
// What was read at one commit is what a transaction finds that sees another one, if nobody has written in between. So whoever
// writes says so before anybody can see it, and never takes it back: what it reads of its own is good for nobody else, and
// where it comes to nothing, all is read from the file until there is another commit.
type decoded struct {
	state held[*Agency]
	names held[*fieldNames]
	forms held[*forms]
}

type held[T any] struct {
	written atomic.Int64 // the last transaction that has written it, whatever came of that
	last    atomic.Pointer[asOf[T]]
}

// asOf is what was read by who saw a commit, and those before it.
type asOf[T any] struct {
	commit int64
	value  T
}

func keptState(d *decoded) *held[*Agency]     { return &d.state }
func keptNames(d *decoded) *held[*fieldNames] { return &d.names }
func keptForms(d *decoded) *held[*forms]      { return &d.forms }

// mostDecoded is the largest value, in bytes of the file, that is kept decoded: an API that gives each record other members
// must not fill the memory.
const mostDecoded = 64 << 10

// readDecoded returns what an agency has in a bucket, and whether it has anything. kept is where that is kept decoded.
func readDecoded[T any](tx *Tx, bucket []byte, agency string, kept func(*decoded) *held[T], decode func([]byte) (T, error)) (value T, exists bool, err error) {
	commit := int64(tx.commit())
	d, known := tx.store.decoded.Load(agency)
	if known {
		h := kept(d.(*decoded))
		// in this order: what is kept by now may be younger than what was written a moment ago
		if last := h.last.Load(); last != nil && h.written.Load() <= min(last.commit, commit) {
			return last.value, true, nil
		}
	}
	b := tx.bucket(bucket)
	if b == nil {
		return value, false, nil // a store of an older version, opened to be read only
	}
	v := b.Get([]byte(agency))
	if v == nil {
		return value, false, nil
	}
	if value, err = decode(v); err == nil && len(v) <= mostDecoded {
		kept(tx.store.decodedOf(agency)).last.Store(&asOf[T]{commit, value})
	}
	return value, true, err
}

// putDecoded writes what readDecoded reads.
func putDecoded[T any](tx *Tx, bucket []byte, agency string, kept func(*decoded) *held[T], v []byte) error {
	kept(tx.store.decodedOf(agency)).written.Store(int64(tx.tx.ID()))
	return tx.bucket(bucket).Put([]byte(agency), v)
}

func (s *Store) decodedOf(agency string) *decoded {
	d, _ := s.decoded.LoadOrStore(agency, &decoded{})
	return d.(*decoded)
}
