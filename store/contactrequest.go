package store

import (
	"cmp"
	"slices"
	"time"
)

// ContactRequest is what is remembered of one contact request: enough to know it again and to say what changed, and
// nothing that the person wrote.
type ContactRequest struct {
	ID          string
	Fingerprint Short
	Digest      Short
	Rules       uint32 // the rules that made Digest and Fields
	Epoch       int    // the insertion's Epoch when it was learned
	Revision    int
	CreatedAt   time.Time // zero if unknown
	Redacted    bool
	Fields      []Field
}

// Short is the beginning of a hash. Those of one insertion are compared with each other only, so it is long enough.
type Short [8]byte

// Field is one named field of a contact request: a short digest of its value, all zero for an empty one. That two values
// have the same hides which field changed, not that something did.
type Field struct {
	Name   string
	Digest FieldDigest
}

// FieldDigest is the first 20 bits of a hash; its last four bits are zero.
type FieldDigest [3]byte

// ShortenField returns what is remembered of the hash of a field that is not empty. It is never all zero.
func ShortenField(hash [3]byte) FieldDigest {
	hash[2] &= 0xf0
	if hash == [3]byte{} {
		hash[0] = 1
	}
	return hash
}

// Empty says whether the field was null or empty.
func (f Field) Empty() bool { return f.Digest == FieldDigest{} }

// ContactRequests returns all contact requests remembered of an insertion, by id.
func (tx *Tx) ContactRequests(agency, reference string) ([]ContactRequest, error) {
	g, err := tx.group(agency, reference)
	if err != nil || len(g.list) == 0 {
		return nil, err
	}
	order := make([]int, len(g.list))
	for n := range order {
		order[n] = n
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(g.list[a].ID, g.list[b].ID) })
	all := make([]ContactRequest, len(order))
	for at, n := range order {
		all[at] = g.list[n]
	}
	return all, nil
}

// PutContactRequest remembers a contact request of an insertion.
func (tx *Tx) PutContactRequest(agency, reference string, c ContactRequest) error {
	g, err := tx.group(agency, reference)
	if err != nil {
		return err
	}
	for _, f := range c.Fields {
		tx.names[agency].number(f.Name)
	}
	g.put(c)
	return nil
}

// LastPoll is when a poll has last put contact requests of an insertion, as far as NotePoll was told; else zero.
func (tx *Tx) LastPoll(agency, reference string) (time.Time, error) {
	g, err := tx.group(agency, reference)
	if err != nil {
		return time.Time{}, err
	}
	return g.polled, nil
}

// NotePoll remembers the time of a poll, to milliseconds, with the contact requests that it puts. So the insertion itself need
// not be written for it. A poll that puts none leaves nothing, unless the clock was set back: then no entry may tell of a later one.
func (tx *Tx) NotePoll(agency, reference string, at time.Time) error {
	g, err := tx.group(agency, reference)
	if err != nil {
		return err
	}
	if at.Before(g.polled) {
		for n := range g.list {
			g.dirty[chunkOf(n)] = struct{}{}
		}
	}
	g.polled = at
	return nil
}

// group is what is remembered of the contact requests of one insertion. They lie together, a few in each entry of the
// bucket: a key of its own for each would be half of what it takes to remember them. A transaction reads a group once and
// writes what has changed of it at its end.
type group struct {
	agency string
	below  []byte           // of its keys
	list   []ContactRequest // as they came; none ever goes
	place  map[string]int   // by id; nil: nobody has put any yet
	dirty  map[int]struct{} // chunks that have changed
	polled time.Time        // when a poll has written to it last, as far as its chunks tell
}

// chunkSize is how many contact requests lie in one entry, maxChunks how many entries an insertion has; the last one takes
// what is beyond.
const (
	chunkSize = 8
	maxChunks = 1 << 16
)

func chunkOf(place int) int { return min(place/chunkSize, maxChunks-1) }

func (g *group) put(c ContactRequest) {
	if g.place == nil {
		g.place = make(map[string]int, len(g.list)+1)
		for n := range g.list {
			g.place[g.list[n].ID] = n
		}
	}
	c.Fields = slices.Clone(c.Fields)
	n, known := g.place[c.ID]
	if !known {
		n = len(g.list)
		g.place[c.ID] = n
		g.list = append(g.list, c)
	}
	g.list[n] = c
	g.dirty[chunkOf(n)] = struct{}{}
}

// chunk is what lies in an entry.
func (g *group) chunk(n int) []ContactRequest {
	if n == maxChunks-1 {
		return g.list[n*chunkSize:]
	}
	return g.list[n*chunkSize : min((n+1)*chunkSize, len(g.list))]
}

func (g *group) key(chunk int) []byte {
	return append(slices.Clone(g.below), byte(chunk>>8), byte(chunk))
}

// group reads the contact requests of an insertion, once in a transaction.
func (tx *Tx) group(agency, reference string) (*group, error) {
	below := prefix(agency, reference)
	if g := tx.groups[string(below)]; g != nil {
		return g, nil
	}
	g := &group{agency: agency, below: below, dirty: map[int]struct{}{}}
	names, err := tx.fieldNames(agency)
	if err != nil {
		return nil, err
	}
	forms, err := tx.forms(agency)
	if err != nil {
		return nil, err
	}
	var chunks [][]byte
	err = tx.scan(bucketContacts, below, func(_, v []byte) error {
		chunks = append(chunks, v)
		return nil
	})
	g.list = make([]ContactRequest, 0, chunkSize*len(chunks))
	for n := 0; n < len(chunks) && err == nil; n++ {
		err = g.read(chunks[n], names, forms)
	}
	if err != nil {
		return nil, err
	}
	tx.groups[string(below)] = g
	return g, nil
}

func (g *group) read(chunk []byte, names *fieldNames, known *forms) (err error) {
	var polled time.Time
	g.list, polled, err = decodeChunk(g.list, chunk, names, known)
	if polled.After(g.polled) {
		g.polled = polled
	}
	return err
}

// flush writes what has changed of the contact requests.
func (tx *Tx) flush() error {
	for _, below := range sortedKeys(tx.groups) {
		if g := tx.groups[below]; len(g.dirty) > 0 {
			if err := tx.write(g); err != nil {
				return err
			}
		}
	}
	return nil
}

func (tx *Tx) write(g *group) error {
	names, err := tx.fieldNames(g.agency)
	if err != nil {
		return err
	}
	forms, err := tx.forms(g.agency)
	if err != nil {
		return err
	}
	for n := range chunkOf(len(g.list)-1) + 1 {
		if _, dirty := g.dirty[n]; !dirty {
			continue
		}
		if err := tx.put(bucketContacts, g.key(n), encodeChunk(g.chunk(n), g.polled, names, forms)); err != nil {
			return err
		}
	}
	return tx.writeNames(g.agency, names, forms)
}
