package sandbox

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"maps"
	"math/rand/v2"
	"strconv"
	"time"
	_ "time/tzdata" // Europe/Zurich must not depend on the machine

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Rendering is everything about a response that the published description leaves open. Start from
// one of [Renderings] and change fields.
type Rendering struct {
	Name string // as a flag would say it

	PageBase    int   // number of the first page, and the default of page
	PageSize    int   // default of pageSize
	MaxPageSize int   // larger ones are capped in silence
	PageSizes   Sizes // those that are refused
	PastEnd     int   // behind the last page: 0 an empty page, a status, or LastPageAgain

	Window      int   // default of numberOfItemsPerPage
	MaxWindow   int   // larger ones are capped in silence
	WindowSizes Sizes // those that are refused

	NoTotals       bool // leave the totals out of the envelopes
	TotalsInHeader bool // show the total in X-Total-Count

	// Steady gives every response the same member order and no white space. If unset both differ
	// from response to response.
	Steady bool

	TimeLayout string         // of createdAt and its like; see EpochSeconds
	Zone       *time.Location // in which they are written
	IDs        IDs            // of contact requests
	// the member that holds the person of a contact request; empty: none, the fields stand beside
	// the others
	Person string

	insertions, window any // envelopes: slots, and objects that hold some
	// what a record of the list is: the slot record, or an object that holds it
	insertion any
}

// slot is a place of an envelope that each response fills in, or leaves out.
type slot func(*page) any

// absent is what a slot says that is not shown; the member is left out.
type absent struct{}

var (
	records slot = func(p *page) any { return p.records }
	record  slot = func(p *page) any { return p.record }
	total   slot = func(p *page) any { return p.unlessHidden(p.total) }
	pages   slot = func(p *page) any { return p.unlessHidden(p.pages()) }
	number  slot = func(p *page) any { return p.shape.PageBase + p.number }
	size    slot = func(p *page) any { return p.size }
	offset  slot = func(p *page) any { return p.offset }
	more    slot = func(p *page) any { return p.more() }
	first   slot = func(p *page) any { return p.number == 0 }
	last    slot = func(p *page) any { return p.number+1 >= p.pages() }
	empty   slot = func(p *page) any { return len(p.records) == 0 }
)

// Renderings returns the envelopes that services of this kind are known to use, for both
// operations, each with paging, names and times of its own. All of them show the whole model,
// honestly.
func Renderings() []Rendering {
	paging := object{
		"page": number, "pageSize": size, "hasNextPage": more, "totalItems": total,
		"totalPages": pages,
	}
	items := object{
		"items": records, "start": offset, "page": number, "itemsPerPage": size,
		"hasNextPage": more, "resultCount": total, "pageCount": pages,
	}
	nested := func(name string) object {
		return object{
			"success": true, "status": object{"code": 200, "message": "OK"},
			"data": object{name: records, "page": number, "size": size, "total": total},
		}
	}
	hal := func(name string) object {
		return object{
			"_embedded": object{name: records}, "_links": object{"self": object{"href": "/"}},
			"page": object{"size": size, "number": number, "totalElements": total, "totalPages": pages},
		}
	}
	list := []Rendering{
		{ // the plainest reading of the description: contact requests are a plain array
			Name: "flat", PageBase: 1,
			insertions: object{
				"results": records, "page": number, "pageSize": size,
				"total": total,
			}, window: records,
		},
		{ // differs from flat wherever it can
			Name: "nested", MaxPageSize: 50, Window: 25, MaxWindow: 50, TimeLayout: TimeNoColon,
			Person: "contact",
			insertions: object{
				"content": records, "number": number, "size": size, "first": first, "last": last,
				"empty": empty, "totalElements": total, "totalPages": pages,
			},
			insertion: object{"insertion": record},
			window:    object{"items": records, "numberOfItemsPerPage": size, "totalNumberOfItems": total},
		},
		{
			Name: "leads", PageBase: 1, TimeLayout: TimeZoneless, Zone: Zurich, Person: "sender",
			insertion: object{"listing": record},
			insertions: object{
				"listings": records, "page": number, "pageSize": size,
				"totalCount": total,
			}, window: object{"leads": records, "count": total},
		},
		{Name: "items", PageBase: 1, insertions: items, window: items},
		{
			Name: "data", PageBase: 1, TimeLayout: EpochSeconds, IDs: IDNumber,
			insertions: object{"data": records, "pagination": paging},
			window:     object{"data": records, "meta": paging},
		},
		{
			Name: "data-nested", PageBase: 1, insertions: nested("insertions"),
			window: nested("contactRequests"),
		},
		{Name: "array", PageBase: 1, TotalsInHeader: true, insertions: records, window: records},
		{
			Name: "hal", TimeLayout: EpochMilliseconds, insertions: hal("insertions"),
			window: hal("contactRequests"),
		},
	}
	for n := range list {
		list[n] = list[n].withDefaults()
	}
	return list
}

// withDefaults fills in what most have: 20 to a page and to a window unless requested, 100 at most,
// and times of an hour that is not UTC's, so that client and server seldom agree on a clock by
// accident.
func (r Rendering) withDefaults() Rendering {
	if r.PageSize = 20; r.MaxPageSize == 0 {
		r.MaxPageSize = 100
	}
	if r.Window == 0 {
		r.Window, r.MaxWindow = 20, 100
	}
	if r.TimeLayout == "" {
		r.TimeLayout = TimeMillis
	}
	if r.Zone == nil {
		r.Zone = time.FixedZone("+01:00", 3600)
	}
	if r.insertion == nil {
		r.insertion = record
	}
	return r
}

// RenderingNamed looks one of them up.
func RenderingNamed(name string) (Rendering, bool) {
	return find(Renderings(), func(r Rendering) bool { return r.Name == name })
}

// Flat is the plainest reading of the description.
func Flat() Rendering { return Renderings()[0] }

// Nested differs from [Flat] wherever it can.
func Nested() Rendering { return Renderings()[1] }

// LastPageAgain as [Rendering].PastEnd serves the last page for every number behind it, for ever.
const LastPageAgain = -1

// Sizes are the sizes that are refused. The zero value refuses none; what is too large is then
// capped in silence.
type Sizes struct {
	Least, Most int // others are refused; zero: no such bound
	Status      int // with this; zero: 400
}

// IDs is how contact requests are identified.
type IDs string

// The zero value shows the id as the model has it.
const (
	IDNumber     IDs = "number"      // an integer above 2^53; see NumberID
	IDNumberText IDs = "number_text" // the same digits as a text
	IDAbsent     IDs = "absent"
)

// NumberID is the number, as digits, that is written for an id under [IDNumber] and [IDNumberText].
// A float64 cannot hold it.
func NumberID(id string) string {
	h := sha256.Sum256([]byte(id))
	n := binary.BigEndian.Uint64(h[:])>>8 | 1<<54 | 1 // odd, so that rounding always shows
	return strconv.FormatUint(n, 10)
}

// Layouts of [Rendering].TimeLayout beside those of package time. The last two are numbers.
const (
	TimeMillis        = "2006-01-02T15:04:05.000Z07:00"
	TimeNoColon       = "2006-01-02T15:04:05-0700"
	TimeZoneless      = "2006-01-02T15:04:05"
	EpochSeconds      = "epoch seconds"
	EpochMilliseconds = "epoch milliseconds"
)

// Zurich is the zone that times without one are in.
var Zurich = func() *time.Location {
	zone, err := time.LoadLocation("Europe/Zurich")
	if err != nil {
		panic(err) // it is embedded
	}
	return zone
}()

// page is what a response has to show: one page of insertions, or one window of contact requests.
type page struct {
	shape   Rendering
	records []any
	record  object // that is being shown
	number  int    // from 0
	size    int
	offset  int // of the first record
	total   int
}

func (p *page) pages() int { return (p.total + p.size - 1) / p.size }

func (p *page) more() bool { return p.offset+len(p.records) < p.total }

func (p *page) unlessHidden(n int) any {
	if p.shape.NoTotals {
		return absent{}
	}
	return n
}

// fill returns the shape with its slots filled in, without members that are absent.
func (p *page) fill(shape any) any {
	switch shape := shape.(type) {
	case slot:
		return shape(p)
	case object:
		filled := object{}
		for name, value := range shape {
			if v := p.fill(value); v != any(absent{}) {
				filled[name] = v
			}
		}
		return filled
	}
	return shape
}

// reference is the member that the description promises.
const reference = "propertyReferenceId"

// tree is what every response shows of the record.
func (i Insertion) tree() (object, error) { return treeOf(i, i.CreatedAt) }

// personal are the members that hold the person of a contact request.
var personal = []string{"salutation", "firstName", "lastName", "email", "language", "message", "phone"}

// tree is what every response shows of the record: a redacted person is all null, what was never
// given is left out.
func (c ContactRequest) tree() (object, error) {
	tree, err := treeOf(c, c.CreatedAt, "visibleFrom", "redacted")
	if err == nil && c.Redacted {
		for _, name := range personal {
			tree[name] = nil
		}
	}
	return tree, err
}

// insertionRecord is one insertion as this response shows it.
func (r Rendering) insertionRecord(v Version[Insertion]) any {
	return (&page{record: v.tree}).fill(r.insertion)
}

// contactRequestRecord is one contact request as this rendering shows it.
func (r Rendering) contactRequestRecord(v Version[ContactRequest], of string) any {
	o := maps.Clone(v.tree)
	switch r.IDs {
	case IDNumber:
		o["id"] = json.Number(NumberID(v.Record.ID))
	case IDNumberText:
		o["id"] = NumberID(v.Record.ID)
	case IDAbsent:
		delete(o, "id")
	}
	if r.Person == "" {
		return o
	}
	numbers := []any{}
	if phone := o["phone"]; phone != nil {
		numbers = append(numbers, object{"type": "MOBILE", "number": phone})
	}
	person := object{"phoneNumbers": numbers}
	for _, name := range personal {
		if value, given := o[name]; given && name != "phone" {
			person[name] = value
		}
		delete(o, name)
	}
	o[reference], o[r.Person] = of, person
	return o
}

// object is a JSON object. A value is what a decoder that uses numbers makes of JSON, an int, a
// time.Time, an object or a []any of these.
type object = map[string]any

var errNotJSON = errors.New("an extra member of the record is not JSON")

// treeOf turns a record into a tree without the hidden members, with extra ones beside its own or
// in their place. The parser's own error is left out: it would quote the record.
func treeOf(record any, created time.Time, hidden ...string) (object, error) {
	text, err := json.Marshal(record)
	if err != nil {
		return nil, errNotJSON
	}
	tree := members(text)
	extra, _ := tree["extra"].(object)
	for _, name := range append(hidden, "extra") {
		delete(tree, name)
	}
	tree["createdAt"] = created
	maps.Copy(tree, extra)
	return tree, nil
}

// members are those of a JSON object, numbers as they are written; nil if it is none.
func members(text []byte) (m object) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if d.Decode(&m) != nil {
		return nil
	}
	return m
}

// write renders a tree. Unless the rendering is steady, member order and white space differ from
// response to response.
func (r Rendering) write(tree any) []byte {
	how := []jsonv2.Options{
		jsonv2.WithMarshalers(jsonv2.JoinMarshalers(
			jsonv2.MarshalFunc(func(t time.Time) ([]byte, error) { return r.time(t), nil }),
			jsonv2.MarshalFunc(func(n json.Number) ([]byte, error) { return []byte(n), nil }),
		)),
		jsonv2.Deterministic(r.Steady), jsontext.AllowInvalidUTF8(true),
	}
	if !r.Steady {
		how = append(how, jsontext.SpaceAfterColon(rand.IntN(2) == 0),
			jsontext.SpaceAfterComma(rand.IntN(2) == 0),
			jsontext.Multiline(rand.IntN(4) == 0))
	}
	text, err := jsonv2.Marshal(tree, how...)
	if err != nil {
		panic(err) // every tree was decoded from JSON
	}
	return text
}

func pick[T any](r *rand.Rand, choices ...T) T { return choices[r.IntN(len(choices))] }

func (r Rendering) time(t time.Time) []byte {
	switch r.TimeLayout {
	case EpochSeconds:
		return strconv.AppendInt(nil, t.Unix(), 10)
	case EpochMilliseconds:
		return strconv.AppendInt(nil, t.UnixMilli(), 10)
	}
	return strconv.AppendQuote(nil, t.In(r.Zone).Format(r.TimeLayout))
}
