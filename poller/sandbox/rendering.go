package sandbox

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // Europe/Zurich must not depend on the machine
	"unicode"

	"github.com/go-json-experiment/json/jsontext"
)

// Rendering is everything about an answer that the published description leaves open. Start from one of [Renderings] and
// change fields.
type Rendering struct {
	Name string // as a flag would say it

	PageBase    int   // number of the first page, and the default of page
	PageSize    int   // default of pageSize
	MaxPageSize int   // larger ones are capped in silence
	PageSizes   Sizes // those that are refused
	PageIgnored bool  // every page is the first one
	PastEnd     int   // behind the last page: 0 an empty page, a status, or LastPageAgain

	Window      int   // default of numberOfItemsPerPage
	MaxWindow   int   // larger ones are capped in silence
	WindowSizes Sizes // those that are refused

	NoTotals       bool // leave the totals out of the envelopes
	TotalsInHeader bool // tell the total in X-Total-Count, and the next page in Link
	UpdatedAt      bool // show updatedAt in insertions

	// Conditional answers have a weak ETag and the second since when they are what they are; If-None-Match and
	// If-Modified-Since are honoured. A 304 is given only to a key that was served the answer it stands for, and counts as
	// serving what that answer held.
	Conditional bool

	// Steady gives every answer the same member order and no white space. If unset both differ from answer to answer, in
	// a way that Seed decides.
	Steady bool
	Seed   uint64

	TimeLayout string         // of createdAt and its like; see EpochSeconds
	Zone       *time.Location // in which they are written
	IDs        IDs            // of contact requests
	SnakeCase  bool           // names of members, but for the one that is promised: propertyReferenceId
	Person     string         // the member that holds the person of a contact request; empty: none, the fields stand beside the others

	insertions, window any               // envelopes: slots, and objects that hold some
	insertion          any               // what a record of the list is: the slot record, or an object that holds it
	renames            map[string]string // by a fault
}

// slot is a place of an envelope that each answer fills in, or leaves out.
type slot func(*page) any

// absent is what a slot says that is not shown; the member is left out.
type absent struct{}

var (
	records  slot = func(p *page) any { return p.records }
	record   slot = func(p *page) any { return p.record }
	recordID slot = func(p *page) any { return p.record.get("id") }
	rankType slot = func(p *page) any { return p.record.get("rankType") }
	total    slot = func(p *page) any { return p.unlessHidden(p.total) }
	pages    slot = func(p *page) any { return p.unlessHidden(p.pages()) }
	number   slot = func(p *page) any { return p.base + p.number }
	size     slot = func(p *page) any { return p.size }
	offset   slot = func(p *page) any { return p.offset }
	more     slot = func(p *page) any { return p.more() }
	first    slot = func(p *page) any { return p.number == 0 }
	last     slot = func(p *page) any { return p.number+1 >= p.pages() }
	empty    slot = func(p *page) any { return len(p.records) == 0 }
	self     slot = func(p *page) any { return p.self.String() }
	next     slot = (*page).next
)

// Renderings returns the envelopes that services of this kind are known to use, for both operations, each with paging,
// names and times of its own. All of them show the whole model, honestly.
func Renderings() []Rendering {
	paging := object{{"page", number}, {"pageSize", size}, {"hasNextPage", more}, {"totalItems", total}, {"totalPages", pages}}
	spring := object{
		{"content", records}, {"number", number}, {"size", size}, {"first", first}, {"last", last}, {"empty", empty}, {"totalElements", total}, {"totalPages", pages},
	}
	items := object{
		{"items", records}, {"start", offset}, {"page", number}, {"itemsPerPage", size}, {"hasNextPage", more}, {"resultCount", total}, {"pageCount", pages},
	}
	search := object{{"results", records}, {"from", offset}, {"size", size}, {"total", total}}
	springModel := object{
		{"content", records}, {"page", object{{"size", size}, {"number", number}, {"totalElements", total}, {"totalPages", pages}}},
	}
	hal := func(name string) object {
		return object{
			{"_embedded", object{{name, records}}},
			{"_links", object{{"self", object{{"href", self}}}, {"next", object{{"href", next}}}}},
			{"page", object{{"size", size}, {"number", number}, {"totalElements", total}, {"totalPages", pages}}},
		}
	}
	nested := func(name string) object {
		return object{
			{"success", true},
			{"status", object{{"code", 200}, {"message", "OK"}}},
			{"data", object{{name, records}, {"page", number}, {"size", size}, {"total", total}}},
		}
	}
	list := []Rendering{
		{ // the plainest reading of the description: contact requests are a plain array
			Name: "flat", PageBase: 1, insertions: object{{"results", records}, {"page", number}, {"pageSize", size}, {"total", total}}, window: records,
		},
		{ // differs from flat wherever it can
			Name: "nested", MaxPageSize: 50, Window: 25, MaxWindow: 50, TimeLayout: TimeNoColon, Person: "contact",
			insertions: spring, insertion: object{{"insertion", record}},
			window: object{{"items", records}, {"numberOfItemsPerPage", size}, {"totalNumberOfItems", total}},
		},
		{
			Name: "search", insertions: search, window: search,
			insertion: object{{"id", recordID}, {"listing", record}, {"listingType", object{{"type", rankType}}}},
		},
		{
			Name: "leads", PageBase: 1, TimeLayout: TimeZoneless, Zone: Zurich, Person: "sender", insertion: object{{"listing", record}},
			insertions: object{{"listings", records}, {"page", number}, {"pageSize", size}, {"totalCount", total}},
			window:     object{{"leads", records}, {"count", total}},
		},
		{Name: "paged-model", TimeLayout: EpochMilliseconds, insertions: springModel, window: springModel},
		{Name: "items", PageBase: 1, insertions: items, window: items},
		{
			Name: "data", PageBase: 1, TimeLayout: EpochSeconds, IDs: IDNumber,
			insertions: object{{"data", records}, {"pagination", paging}}, window: object{{"data", records}, {"meta", paging}},
		},
		{Name: "data-nested", PageBase: 1, insertions: nested("insertions"), window: nested("contactRequests")},
		{Name: "array", PageBase: 1, TotalsInHeader: true, insertions: records, window: records},
		{Name: "hal", insertions: hal("insertions"), window: hal("contactRequests")},
		{
			Name: "snake", PageBase: 1, SnakeCase: true, insertions: object{{"results", records}, {"page", number}, {"pageSize", size}, {"totalCount", total}},
			window: object{{"contactRequests", records}, {"totalCount", total}},
		},
	}
	for n := range list {
		list[n] = list[n].withDefaults()
	}
	return list
}

// withDefaults fills in what most have: 20 to a page and to a window unless asked, 100 at most, and times of an hour that
// is not UTC's, so that client and server seldom agree on a clock by accident.
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
	for _, r := range Renderings() {
		if r.Name == name {
			return r, true
		}
	}
	return Rendering{}, false
}

func mustRendering(name string) Rendering {
	r, ok := RenderingNamed(name)
	if !ok {
		panic("sandbox: there is no rendering " + name)
	}
	return r
}

// Flat is the plainest reading of the description.
func Flat() Rendering { return mustRendering("flat") }

// Nested differs from [Flat] wherever it can.
func Nested() Rendering { return mustRendering("nested") }

// LastPageAgain as [Rendering].PastEnd serves the last page for every number behind it, for ever.
const LastPageAgain = -1

// Sizes are the sizes that are refused. The zero value refuses none; what is too large is then capped in silence.
type Sizes struct {
	Least, Most int // others are refused, with 416 and TooLarge; zero: no such bound
	TooLarge    int // status of what is above Most; zero: 400
	Any         int // status of every number that is given at all; zero: taken
}

// IDs is how contact requests are identified.
type IDs string

// The zero value shows the id as the model has it.
const (
	IDNumber     IDs = "number"      // an integer above 2^53; see NumberID
	IDNumberText IDs = "number_text" // the same digits as a text
	IDAbsent     IDs = "absent"
)

// NumberID is the number, as digits, that stands for an id under [IDNumber] and [IDNumberText]. A float64 cannot hold it.
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

// page is what an answer has to show: one page of insertions, or one window of contact requests.
type page struct {
	records    []any
	record     object // that is being shown
	number     int    // from 0
	base       int    // what the first one is called
	size       int
	offset     int // of the first record
	total      int
	window     bool // of contact requests
	hideTotals bool
	self       *url.URL // what was asked
}

func (p *page) pages() int { return (p.total + p.size - 1) / p.size }

func (p *page) more() bool { return p.offset+len(p.records) < p.total }

func (p *page) unlessHidden(n int) any {
	if p.hideTotals {
		return absent{}
	}
	return n
}

// next is the address of the next page.
func (p *page) next() any {
	if p.window || !p.more() {
		return absent{}
	}
	u := *p.self
	q := u.Query()
	q.Set("page", strconv.Itoa(p.base+p.number+1))
	q.Set("pageSize", strconv.Itoa(p.size))
	u.RawQuery = q.Encode()
	return u.String()
}

// fill returns the shape with its slots filled in, without members that are absent and objects of such members alone.
func (p *page) fill(shape any) any {
	switch shape := shape.(type) {
	case slot:
		return shape(p)
	case object:
		filled := make(object, 0, len(shape))
		for _, m := range shape {
			if v := p.fill(m.value); v != (absent{}) {
				filled = append(filled, member{m.name, v})
			}
		}
		if len(filled) == 0 {
			return absent{}
		}
		return filled
	}
	return shape
}

// reference is the member that the description promises, updatedAt the last of an insertion's tree.
const (
	reference = "propertyReferenceId"
	updatedAt = "updatedAt"
)

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

// insertionRecord is one insertion as this answer shows it.
func (r Rendering) insertionRecord(v *Version[Insertion], d Damage) any {
	o := v.tree
	if !r.UpdatedAt {
		o = o[:len(o)-1]
	}
	return (&page{record: d.do(o)}).fill(r.insertion)
}

// contactRequestRecord is one contact request as this rendering shows it: a redacted person is all null, what was never
// given is left out.
func (r Rendering) contactRequestRecord(v *Version[ContactRequest], of string, d Damage) any {
	c := v.Record
	var person object
	text := func(name, text string) {
		switch {
		case c.Redacted:
			person = append(person, member{name, nil})
		case text != "":
			person = append(person, member{name, text})
		}
	}
	text("salutation", c.Salutation)
	text("firstName", c.FirstName)
	text("lastName", c.LastName)
	text("email", c.Email)
	text("language", c.Language)
	text("message", c.Message)
	var o object
	switch r.IDs {
	case IDNumber:
		o = object{{"id", json.Number(NumberID(c.ID))}}
	case IDNumberText:
		o = object{{"id", NumberID(c.ID)}}
	case IDAbsent:
	default:
		o = object{{"id", c.ID}}
	}
	o = append(o, member{"createdAt", c.CreatedAt}, member{"score", scoreText(c.Score)})
	if r.Person == "" {
		text("phone", c.Phone)
		o = append(o, person...)
	} else {
		numbers := []any{}
		if c.Phone != "" {
			numbers = append(numbers, object{{"type", "MOBILE"}, {"number", c.Phone}})
		}
		o = append(o, member{reference, of}, member{r.Person, append(person, member{"phoneNumbers", numbers})})
	}
	if len(c.ViewingTimes) > 0 {
		times := []any{}
		for _, t := range c.ViewingTimes {
			times = append(times, t)
		}
		o = append(o, member{"viewingTimes", times})
	}
	if c.Status != "" {
		o = append(o, member{"status", c.Status})
	}
	for _, m := range v.tree {
		o = o.with(m.name, m.value)
	}
	return d.do(o)
}

func scoreText(v float64) json.Number {
	text, err := json.Marshal(v)
	if err != nil { // NaN and infinity have no JSON
		return "0"
	}
	return json.Number(text)
}

// object is a JSON object whose members have an order of their own. A value is nil, a bool, string, int, json.Number,
// time.Time, rawText, an object or a []any of them.
type object []member

type member struct {
	name  string
	value any
}

// rawText is written as it is, whether it is JSON or not.
type rawText string

// with returns a copy in which the member has the value.
func (o object) with(name string, value any) object {
	c := slices.DeleteFunc(slices.Clone(o), func(m member) bool { return m.name == name })
	return append(c, member{name, value})
}

// get returns the value of a member; nil if there is none.
func (o object) get(name string) any {
	for _, m := range o {
		if m.name == name {
			return m.value
		}
	}
	return nil
}

var errNotJSON = errors.New("an extra member is not JSON")

// treeOf turns what encoding/json makes of v, an object, into a tree. The parser's own error is left out: it would quote
// the record.
func treeOf(v any) (object, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, errNotJSON
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	tree, err := readValue(d)
	if err != nil {
		return nil, errNotJSON
	}
	o, _ := tree.(object)
	return o, nil
}

func readValue(d *json.Decoder) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch token {
	case json.Delim('{'):
		o := object{}
		for d.More() {
			name, err := d.Token()
			if err != nil {
				return nil, err
			}
			value, err := readValue(d)
			if err != nil {
				return nil, err
			}
			o = append(o, member{name.(string), value})
		}
		_, err = d.Token()
		return o, err
	case json.Delim('['):
		a := []any{}
		for d.More() {
			value, err := readValue(d)
			if err != nil {
				return nil, err
			}
			a = append(a, value)
		}
		_, err = d.Token()
		return a, err
	}
	return token, nil
}

// write renders a tree; answer is the number of the answer, which decides member order and white space unless the
// rendering is steady.
func (r Rendering) write(tree any, answer uint64) []byte {
	w := &writer{rendering: r, out: make([]byte, 0, 4<<10), colon: ":", comma: ","}
	if !r.Steady {
		w.shuffle = rand.New(rand.NewPCG(r.Seed, answer))
		w.colon += pick(w.shuffle, "", " ")
		w.comma += pick(w.shuffle, "", " ", "\n", "\r\n\t")
	}
	w.value(tree)
	return w.out
}

func pick[T any](r *rand.Rand, choices ...T) T { return choices[r.IntN(len(choices))] }

type writer struct {
	rendering    Rendering
	out          []byte
	shuffle      *rand.Rand // nil: members as the trees have them
	colon, comma string
}

func (w *writer) value(v any) {
	switch v := v.(type) {
	case nil:
		w.out = append(w.out, "null"...)
	case bool:
		w.out = strconv.AppendBool(w.out, v)
	case string:
		w.text(v)
	case int:
		w.out = strconv.AppendInt(w.out, int64(v), 10)
	case json.Number:
		w.out = append(w.out, v...)
	case rawText:
		w.out = append(w.out, v...)
	case time.Time:
		w.time(v)
	case object:
		w.object(v)
	case []any:
		w.out = append(w.out, '[')
		for n, one := range v {
			if n > 0 {
				w.out = append(w.out, w.comma...)
			}
			w.value(one)
		}
		w.out = append(w.out, ']')
	default:
		panic(fmt.Sprintf("sandbox: a tree cannot hold a %T", v))
	}
}

func (w *writer) object(o object) {
	var order []int
	if w.shuffle != nil {
		order = w.shuffle.Perm(len(o))
	}
	w.out = append(w.out, '{')
	for n := range o {
		if n > 0 {
			w.out = append(w.out, w.comma...)
		}
		m := o[n]
		if order != nil {
			m = o[order[n]]
		}
		w.text(w.rendering.memberName(m.name))
		w.out = append(w.out, w.colon...)
		w.value(m.value)
	}
	w.out = append(w.out, '}')
}

// text escapes what must be escaped and nothing else; bytes that are no UTF-8 become U+FFFD.
func (w *writer) text(s string) {
	w.out, _ = jsontext.AppendQuote(w.out, s)
}

func (w *writer) time(t time.Time) {
	switch w.rendering.TimeLayout {
	case EpochSeconds:
		w.out = strconv.AppendInt(w.out, t.Unix(), 10)
	case EpochMilliseconds:
		w.out = strconv.AppendInt(w.out, t.UnixMilli(), 10)
	default:
		w.text(t.In(w.rendering.Zone).Format(w.rendering.TimeLayout))
	}
}

func (r Rendering) memberName(name string) string {
	if other, renamed := r.renames[name]; renamed {
		return other
	}
	if !r.SnakeCase || name == reference {
		return name
	}
	var b strings.Builder
	for i, c := range name {
		if unicode.IsUpper(c) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}
