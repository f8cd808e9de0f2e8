package store

import (
	"bytes"
	"sync"
)

// decoded keeps what stands decoded in the values that every poll reads and that seldom change, one for each agency. It is shared:
// who changes it makes a copy. What is large is not kept: an API that gives each record other members must not fill the memory.
type decoded[T any] struct{ byAgency sync.Map }

// mostDecoded is the largest value, in bytes of the file, that is kept decoded.
const mostDecoded = 64 << 10

type decodedValue[T any] struct {
	raw   []byte
	value T
}

// decode decodes a value, unless it is the same as the last time.
func (d *decoded[T]) decode(agency string, raw []byte, decode func() (T, error)) (T, error) {
	if last, ok := d.byAgency.Load(agency); ok {
		if last := last.(*decodedValue[T]); bytes.Equal(last.raw, raw) {
			return last.value, nil
		}
	}
	value, err := decode()
	if err == nil && len(raw) <= mostDecoded {
		d.byAgency.Store(agency, &decodedValue[T]{bytes.Clone(raw), value})
	}
	return value, err
}
