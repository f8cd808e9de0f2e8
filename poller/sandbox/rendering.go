package sandbox

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"
)

// Rendering is everything about an answer that the published description leaves
// open. Start from [Flat], [Nested] or one of [Families] and change fields; a
// further shape is one more function like these.
type Rendering struct {
	Name string // as a flag would say it

	PageBase    int // number of the first page, and the default of page
	PageSize    int // default of pageSize
	MaxPageSize int // larger ones are capped in silence

	PageSizes   Sizes // those that are refused
	PageIgnored bool  // every page is the first one
	PastEnd     int   // behind the last page: 0 an empty page, a status, or LastPageAgain
	MaxDepth    int   // so many insertions can be reached by paging, whatever the total says; zero: all
	Cursor      bool  // the parameter cursor is obeyed; it wins over page

	Window    int // default of numberOfItemsPerPage
	MaxWindow int // larger ones are capped in silence

	WindowSizes Sizes // those that are refused
	WindowOrder Order // of contact requests, whatever is asked

	NoTotals       bool // leave the totals out of the envelopes
	TotalsInHeader bool // tell the total in X-Total-Count, and the next page in Link
	UpdatedAt      bool // show updatedAt in insertions

	None   None // how an empty list is shown
	Lonely bool // a list of one is shown as that one, without an array

	Volatile    Volatile
	Conditional Conditional

	// Steady gives every answer the same member order and no white space. If
	// unset both differ from answer to answer, in a way that Seed decides.
	Steady bool
	Seed   uint64

	TimeLayout string         // of createdAt and its like; see EpochSeconds
	Zone       *time.Location // in which they are written

	IDs           IDs    // of contact requests
	Names         Names  // of all members
	ReferenceName string // of propertyReferenceId; empty: that
	// WrapInsertion and WrapContactRequest put each record into an object of its
	// own, as the member of this name; empty: as the family does.
	WrapInsertion, WrapContactRequest string
	// Person is the member that holds the person of a contact request; "flat"
	// stands for none, empty for what the family does.
	Person string

	insertions     func(Rendering, page) any
	contactRequest func(*contactRequestVersion, string) object
	window         func(Rendering, page) any
	wrap           func(object) object // of an insertion; nil: none
	renames        map[string]string   // by a fault
}

// winter is the zone of the renderings here: the hour before it, so that client
// and server seldom agree on a clock by accident.
var winter = time.FixedZone("+01:00", 3600)

// write renders a tree; answer is the number of the answer.
func (r Rendering) write(tree any, answer uint64) []byte {
	var shuffle *rand.Rand
	if !r.Steady {
		shuffle = rand.New(rand.NewPCG(r.Seed, answer))
	}
	w := newWriter(shuffle, r.showTime)
	w.name = r.memberName
	w.value(tree)
	return w.out
}

func (r Rendering) memberName(name string) string {
	if other, renamed := r.renames[name]; renamed {
		return other
	}
	return r.Names.apply(name)
}

// reference is the member that the description promises.
const reference = "propertyReferenceId"

// insertionTree is the record as all renderings show it, updatedAt included.
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

// insertionRecord is one insertion as this answer shows it.
func (r Rendering) insertionRecord(i *insertion, v *insertionVersion, s sight, damage Damage, answer uint64) object {
	o := v.tree
	if !r.UpdatedAt {
		o = o[:len(o)-1] // updatedAt is the last
	}
	o = r.Volatile.stir(o, i, s, answer)
	o = damage.do(o)
	if r.ReferenceName != "" {
		o = o.renamed(reference, r.ReferenceName)
	}
	switch {
	case r.WrapInsertion != "":
		return object{{r.WrapInsertion, o}}
	case r.wrap != nil:
		return r.wrap(o)
	}
	return o
}

// stir returns the record, or a copy with what never stays the same.
func (v Volatile) stir(o object, i *insertion, s sight, answer uint64) object {
	if v.Views {
		o = o.with("views", int(answer))
	}
	if v.ContactRequestCount {
		o = o.with("contactRequestCount", len(i.visibleContactRequests(s, windowQuery{}, "")))
	}
	if v.Touched {
		o = o.with(updatedAt, s.at)
	}
	if v.SignedURLs {
		url := fmt.Sprintf("https://img.example.org/%d/1.jpg?expires=%d&signature=%016x", i.current().record.ID, s.at.Unix()+900, answer*0x9e3779b97f4a7c15)
		o = o.with("images", []any{object{{"url", url}}})
	}
	if v.Translation && answer%2 == 0 {
		texts, _ := o.get("localization").(object)
		o = o.with("localization", texts.with("en", object{{"text", object{{"title", "Translated by the portal"}}}}))
	}
	return o
}

// contactRequestRecord is one contact request as this rendering shows it.
func (r Rendering) contactRequestRecord(v *contactRequestVersion, reference string, damage Damage) object {
	var o object
	switch r.Person {
	case "":
		o = r.contactRequest(v, reference)
	case "flat":
		o = flatContactRequest(v, reference)
	default:
		o = nestedContactRequest(v, reference).renamed("contact", r.Person)
	}
	o = damage.do(r.IDs.show(o, v.record.ID))
	if r.ReferenceName != "" {
		o = o.renamed("propertyReferenceId", r.ReferenceName)
	}
	if r.WrapContactRequest != "" {
		return object{{r.WrapContactRequest, o}}
	}
	return o
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
