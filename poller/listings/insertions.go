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
	Hash           [32]byte  // SHA-256 of the body, unpacked
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
	// NotModified: the answer is the one that Expect names, and holds no records.
	NotModified bool
}

// Expect is what the caller remembers of an earlier answer to the same question. It is never a parameter of the question.
type Expect struct {
	Shape              Shape
	ETag, LastModified string // what the answer may be left out for, if nothing has changed since; empty: it may not
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
}

// Insertion is one published property.
type Insertion struct {
	Reference string          // propertyReferenceId, never empty; the text of it if it was a number
	Record    json.RawMessage // compact, member order and texts as sent, always proper JSON
	Defects   []string        // what is wrong with the record: the Defect constants, sorted
}

// Insertions reads one page of the published insertions of an agency.
func (c *Client) Insertions(ctx context.Context, key Key, agency string, q InsertionsQuery) (*InsertionsPage, error) {
	x, err := c.ask(ctx, key, Request{Operation: OperationInsertions, AgencyID: agency}, q.values())
	if err != nil {
		return nil, err
	}
	return c.insertionsPage(x, q.PageSize)
}

const expectedInsertions = "an array of objects with propertyReferenceId"

func (c *Client) insertionsPage(x *exchange, size int) (*InsertionsPage, error) {
	e, err := x.answer(expectedInsertions)
	if err != nil {
		return nil, err
	}
	l, wrong := e.insertionList(c.o.InsertionsPath)
	if wrong != "" {
		return nil, x.drift(expectedInsertions, wrong)
	}
	if l.tooLong() {
		return nil, x.drift("a page of records", "more records than fit any page")
	}
	page := &InsertionsPage{Envelope: x.envelope(size)}
	page.Path = string(l.path)
	total := 0
	for raw := range elements(l.raw) {
		total++
		record, reference := referenced(raw)
		if reference == "" {
			page.Unreadable++
			continue
		}
		i := Insertion{Reference: reference}
		i.Record, i.Defects = compact(record)
		page.Insertions = append(page.Insertions, i)
	}
	page.Total = e.totalOf(l, total, x)
	return page, nil
}

// totalOf is the total of an answer; a plain array may have it in a header.
func (e *envelope) totalOf(l list, records int, x *exchange) int {
	if e.root.Kind() != jsontext.KindBeginArray {
		return e.total(l, records)
	}
	n, err := strconv.Atoi(x.header.Get("X-Total-Count"))
	if err != nil || n < 0 {
		return -1
	}
	return n
}

// insertionList finds the list of insertions, or says what was found in its place.
func (e *envelope) insertionList(configured string) (list, string) {
	if configured != "" {
		l, ok := at(e.root, jsontext.Pointer(configured))
		if !ok || l.raw.Kind() != jsontext.KindBeginArray {
			return list{}, "no array at the configured path; " + describe(e.root)
		}
		if isEmpty(l.raw) || holds(l) > 0 {
			return l, ""
		}
		return list{}, "array without propertyReferenceId at the configured path"
	}
	if l, ok := e.mostReferences(); ok {
		return l, ""
	}
	if !e.unhappy() {
		none := func(l list) bool { return l.isNone(insertionNames) }
		if i := slices.IndexFunc(e.lists, none); i >= 0 && !e.otherRecords() {
			return e.lists[i], ""
		}
		if e.noneByTotal() {
			return list{}, ""
		}
	}
	return list{}, describe(e.root)
}

// otherRecords says whether a list with a known name holds objects: then an empty one beside it proves nothing.
func (e *envelope) otherRecords() bool {
	for _, l := range e.lists {
		if objects(l) > 0 && (l.depth == 0 || named(l.name, insertionNames) || named(l.name, genericNames)) {
			return true
		}
	}
	return false
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
	for raw := range elements(l.raw) {
		if _, reference := referenced(raw); reference != "" {
			n++
		}
	}
	return n
}

func objects(l list) (n int) {
	for raw := range elements(l.raw) {
		if raw.Kind() == jsontext.KindBeginObject {
			n++
		}
	}
	return n
}

var referenceNames = []string{"propertyReferenceId", "objectReference"}

// referenced is the record in an element of the list: the element, or the direct member of it that holds the reference.
func referenced(element jsontext.Value) (record jsontext.Value, reference string) {
	if reference = referenceOf(element); reference != "" {
		return element, reference
	}
	for _, value := range members(element) {
		if reference = referenceOf(value); reference != "" {
			return value, reference
		}
	}
	return nil, ""
}

// referenceOf is the reference that an object holds; empty if it holds none that could be remembered.
func referenceOf(o jsontext.Value) string {
	for _, name := range referenceNames {
		value, _ := member(o, name)
		if s, ok := scalar(value); ok && isReference(s) {
			return s
		}
	}
	return ""
}

// isReference refuses what no store could keep as a key. Other odd ones are kept; that they cannot be asked for is said
// when they are.
func isReference(s string) bool {
	return s != "" && len(s) <= maxReference && !strings.ContainsRune(s, 0)
}
