package listings

import (
	"context"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Envelope is what is common to the pages of both operations.
type Envelope struct {
	Total          int       // how many records there are, as the API says; -1 if it does not
	Path           string    // JSON pointer to the list of records: the shape of the answer; "" is the root
	Hashes         Hashes    // of the answer
	Date           time.Time // the API's clock, to the second; zero if it did not say
	Sent, Received time.Time // our clock, before the request and after the last byte
	Size           int       // how many records were asked for; 0: it was left to the API
	// Unreadable counts elements of the list that are no record: nobody knows what they stand for, so that a page with
	// one of them does not show all that is there.
	Unreadable int

	// Found: Path leads to a list. Else the answer says by its total alone that there are no records.
	Found bool
	// ETag and LastModified are what a later request may be made conditional with; empty if the API gave none.
	ETag, LastModified string
	// NotModified: the answer is the one that Expect names. It holds no records, and no hashes or validators either.
	NotModified bool
	// Same: the answer is the one that Expect has the hashes of, but for what nobody reads. It was not decoded: it holds no
	// records, path or total, all of which are as they were, and of its own hashes only those that it took to know it.
	Same bool
}

// Expect is what the caller remembers of an earlier answer to the same question. It is never a parameter of the question.
type Expect struct {
	Shape              Shape
	ETag, LastModified string // what the answer may be left out for, if nothing has changed since; empty: it may not
	Hashes             Hashes // of an answer that need not be decoded again; zero: there is none

	known func(Hashes) bool // nil: Hashes.Is
}

// Shape is where the records of an operation of an agency were found before.
type Shape struct {
	Path  string // JSON pointer to the list; "" is the root
	Known bool   // false: nothing is known yet
}

// InsertionsQuery are the parameters of the list of insertions. Zero values are left out.
type InsertionsQuery struct {
	PageSize    int
	Page        int // 0: left out, as the first request of a walk does
	OfferType   string
	RankType    string
	SearchQuery string
	Other       url.Values // sent as they are; the fields above win
	Expect      Expect
}

func (q InsertionsQuery) values() url.Values {
	v := url.Values{}
	maps.Copy(v, q.Other)
	setNumber(v, "pageSize", q.PageSize)
	setNumber(v, "page", q.Page)
	setText(v, "offerType", q.OfferType)
	setText(v, "rankType", q.RankType)
	setText(v, "searchQuery", q.SearchQuery)
	return v
}

func setNumber(v url.Values, name string, n int) {
	if n > 0 {
		v.Set(name, strconv.Itoa(n))
	}
}

func setText(v url.Values, name, s string) {
	if s != "" {
		v.Set(name, s)
	}
}

// InsertionsPage is one page of the list of insertions of an agency. A reference may stand on it twice.
type InsertionsPage struct {
	Envelope
	Insertions []Insertion

	marks []uint32 // of the records of a page that is known but for what is ignored, one after the other
}

// Insertion is one published property.
type Insertion struct {
	Reference string          // propertyReferenceId, never empty; the text of it if it was a number
	Record    json.RawMessage // compact, member order and texts as sent, always proper JSON
	Defects   []string        // what is wrong with the record: the Defect constants, sorted
	// Marks are those of the members that are Watched, in their order. Of a record that was not read because its page is the
	// same, there are none where not even they have changed.
	Marks []uint32
}

// Insertions reads one page of the published insertions of an agency.
func (c *Client) Insertions(ctx context.Context, key Key, agency string, q InsertionsQuery) (*InsertionsPage, error) {
	x, err := c.ask(ctx, key, Request{Operation: OperationInsertions, AgencyID: agency}, encodeQuery(q.values()), q.Expect)
	if err != nil {
		return nil, err
	}
	defer x.release()
	return c.insertionsPage(x, q.PageSize)
}

const expectedInsertions = "an array of objects with propertyReferenceId"

func (c *Client) insertionsPage(x *exchange, size int) (*InsertionsPage, error) {
	page := &InsertionsPage{Envelope: c.envelope(x, size)}
	if page.NotModified {
		return page, nil
	}
	if page.Hashes, page.Same, page.marks = c.recognise(x); page.Same {
		return page, nil
	}
	e, err := x.answer(expectedInsertions)
	if err != nil {
		return nil, err
	}
	l, err := x.find(e, e.insertions(), c.o.InsertionsPath)
	if err != nil {
		return nil, err
	}
	expected, _ := c.expectedPath(x)
	page.place(l, expected)
	total, wrapped, s := 0, false, c.sketchFor(x, page.Path)
	for raw := range l.records() {
		total++
		record, reference := referenced(raw)
		wrapped = wrapped || len(record) < len(raw)
		if reference == "" {
			page.Unreadable++
			continue
		}
		if isForeignAgency(raw, x.request.AgencyID) || isForeignAgency(record, x.request.AgencyID) {
			return nil, x.drift("insertions of the agency that was asked for", "one of another")
		}
		i := Insertion{Reference: reference}
		i.Record, i.Defects = compact(record)
		if len(s.watched) > 0 {
			i.Marks = s.marksOf(jsontext.Value(i.Record))
		}
		page.Insertions = append(page.Insertions, i)
	}
	if wrapped && len(c.o.IgnoreInsertions) > 0 {
		page.Hashes.Content = Sum{} // what is ignored is told from the record on, and its sketch begins around it
	}
	page.Total = e.totalOf(l, total, x.header)
	return page, nil
}

// insertions says how insertions are told: by the reference that each of them holds.
func (e *envelope) insertions() sought {
	return sought{
		what: expectedInsertions, names: insertionNames,
		fits:     func(l list) bool { return holds(l) > 0 },
		anywhere: func(bool) (list, bool) { return e.mostReferences() },
		isRecord: isLoneInsertion,
		none: func() (list, bool) {
			i := slices.IndexFunc(e.lists, func(l list) bool { return l.isNone(insertionNames) })
			if i < 0 || e.otherRecords() {
				return list{}, false
			}
			return e.lists[i], true
		},
	}
}

// isLoneInsertion refuses an object of several insertions, of which only one would be read.
func isLoneInsertion(o jsontext.Value) bool {
	if referenceOf(o) != "" {
		return true
	}
	n := 0
	for _, value := range members(o) {
		if referenceOf(value) != "" {
			n++
		}
	}
	return n == 1
}

// mostReferences is the list that holds insertions. Of several, one with the name of a list wins, then the outer one,
// then the one that holds more.
func (e *envelope) mostReferences() (best list, found bool) {
	var bestRank [3]int
	for _, l := range e.lists {
		n := holds(l)
		if n == 0 {
			continue
		}
		rank := [3]int{0, -l.depth, n}
		if named(l.name, insertionNames) || named(l.name, genericNames) {
			rank[0] = 1
		}
		if !found || slices.Compare(rank[:], bestRank[:]) > 0 {
			best, bestRank, found = l, rank, true
		}
	}
	return best, found
}

// holds counts the insertions of a list.
func holds(l list) (n int) {
	for raw := range l.records() {
		if _, reference := referenced(raw); reference != "" {
			n++
		}
	}
	return n
}

func hasObjects(l list) bool {
	for raw := range elements(l.raw) {
		if isFilled(members(raw)) {
			return true
		}
	}
	return false
}

var referenceNames = []string{"propertyreferenceid", "objectreference"}

// insertionMembers are what the member of an element is called that holds the insertion, if it is not the element.
var insertionMembers = []string{"insertion", "listing", "property", "realestate", "node", "attributes", "item"}

// referenced is the record in an element of the list: the element, or the direct member of it that holds the reference.
// Of several, one with a known name wins, then the first by name, so that their order does not matter.
func referenced(element jsontext.Value) (record jsontext.Value, reference string) {
	if reference = referenceOf(element); reference != "" {
		return element, reference
	}
	var best [2]string
	for name, value := range members(element) {
		r := referenceOf(value)
		if r == "" {
			continue
		}
		rank := [2]string{"2", name}
		if i := slices.Index(insertionMembers, plain(name)); i >= 0 {
			rank[0] = "1" + string(rune('a'+i))
		}
		if reference == "" || slices.Compare(rank[:], best[:]) <= 0 {
			record, reference, best = value, r, rank
		}
	}
	return record, reference
}

// referenceOf is the reference that an object holds; empty if it holds none that could be remembered.
func referenceOf(o jsontext.Value) (reference string) {
	best := len(referenceNames)
	for name, value := range members(o) {
		i := slices.IndexFunc(referenceNames, func(n string) bool { return SameName(name, n) })
		if i < 0 || i > best {
			continue
		}
		if s, ok := scalar(value); ok && isReference(s) {
			reference, best = s, i
		}
	}
	return reference
}

// isReference refuses what no store could keep as a key. Other odd ones are kept; that they cannot be asked for is said
// when they are.
func isReference(s string) bool {
	return s != "" && len(s) <= maxReference && !strings.ContainsRune(s, 0)
}
