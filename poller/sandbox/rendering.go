package sandbox

import (
	"encoding/json"
	"math/rand/v2"
	"time"
)

// Rendering is everything about an answer that the published description leaves
// open. Start from [Flat] or [Nested] and change fields; a further shape is one
// more function like these.
type Rendering struct {
	Name string // as a flag would say it

	PageBase    int // number of the first page, and the default of page
	PageSize    int // default of pageSize
	MaxPageSize int // larger ones are capped in silence

	Window    int // default of numberOfItemsPerPage
	MaxWindow int // larger ones are capped in silence

	NoTotals  bool // leave the totals out of the envelopes
	UpdatedAt bool // show updatedAt in insertions

	// Steady gives every answer the same member order and no white space. If
	// unset both differ from answer to answer, in a way that Seed decides.
	Steady bool
	Seed   uint64

	TimeLayout string         // of createdAt and its like
	Zone       *time.Location // in which they are written

	insertions     func(Rendering, insertionPage) any
	contactRequest func(*contactRequestVersion, string) object
	window         func(Rendering, contactRequestWindow) any
}

// Renderings returns one of each.
func Renderings() []Rendering { return []Rendering{Flat(), Nested()} }

// insertionPage is what a list answer has to show.
type insertionPage struct {
	records      []object
	number, size int // as asked, number counted from PageBase
	total        int
}

// contactRequestWindow is what a contact request answer has to show.
type contactRequestWindow struct {
	records     []object
	size, total int // size as asked
}

// pages is the number of pages of this size.
func (p insertionPage) pages() int { return (p.total + p.size - 1) / p.size }

// winter is the zone of the renderings here: the hour before it, so that client
// and server seldom agree on a clock by accident.
var winter = time.FixedZone("+01:00", 3600)

func (r Rendering) formatTime(t time.Time) string { return t.In(r.Zone).Format(r.TimeLayout) }

// write renders a tree; answer is the number of the answer.
func (r Rendering) write(tree any, answer uint64) []byte {
	var shuffle *rand.Rand
	if !r.Steady {
		shuffle = rand.New(rand.NewPCG(r.Seed, answer))
	}
	w := newWriter(shuffle, r.formatTime)
	w.value(tree)
	return w.out
}

// insertionTree is the record as both renderings show it, updatedAt included.
func insertionTree(i Insertion) (object, error) {
	extra, err := treeOf(i.Extra)
	if err != nil {
		return nil, err
	}
	created, updated := i.CreatedAt, i.UpdatedAt
	i.Extra, i.CreatedAt, i.UpdatedAt = nil, time.Time{}, time.Time{}
	tree, err := treeOf(i)
	if err != nil {
		return nil, err
	}
	for _, m := range extra {
		tree = tree.with(m.name, m.value)
	}
	return tree.with("createdAt", created).with(updatedAt, updated), nil
}

const updatedAt = "updatedAt"

// visible leaves out what the rendering does not show.
func (r Rendering) visible(records []object) []object {
	if r.UpdatedAt {
		return records
	}
	shown := make([]object, len(records))
	for i, record := range records {
		shown[i] = record[:len(record)-1] // updatedAt is the last
	}
	return shown
}

// optional appends members whose text is not empty.
func (o object) optional(name, text string) object {
	if text == "" {
		return o
	}
	return append(o, member{name, text})
}

func score(v float64) json.Number {
	text, err := json.Marshal(v)
	if err != nil { // NaN and infinity have no JSON
		return "0"
	}
	return json.Number(text)
}

func texts(ss []string) []any {
	values := make([]any, len(ss))
	for i, s := range ss {
		values[i] = s
	}
	return values
}
