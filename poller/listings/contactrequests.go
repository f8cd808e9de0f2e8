package listings

import (
	"context"
	"encoding/json"
	"net/url"
	"slices"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// IDFields are the names under which the id of a contact request is looked for, best first.
var IDFields = []string{"id", "contactRequestId", "requestId", "uuid", "_id"}

// ContactRequestsQuery are the parameters of the contact requests of an insertion. Zero values are left out.
type ContactRequestsQuery struct {
	NumberOfItemsPerPage int
	SortBy               string // score or createdAt
	SortOrder            string // asc or desc
	Expect               Expect
}

func (q ContactRequestsQuery) values() url.Values {
	v := url.Values{}
	setNumber(v, "numberOfItemsPerPage", q.NumberOfItemsPerPage)
	setText(v, "sortBy", q.SortBy)
	setText(v, "sortOrder", q.SortOrder)
	return v
}

// ContactRequestsPage is what the API shows of the contact requests of an insertion, in the order of the answer. An id
// may stand on it twice.
type ContactRequestsPage struct {
	Envelope
	ContactRequests []ContactRequest
}

// ContactRequest is one inquiry. Its record is personal data.
type ContactRequest struct {
	Record    json.RawMessage // compact, member order and texts as sent, always proper JSON
	Defects   []string        // what is wrong with the record: the Defect constants, sorted
	Reference string          // the insertion that the record names, "" if it names none
	CreatedAt time.Time       // UTC; zero if absent or unreadable
	Score     json.RawMessage // number, text or null, as sent; nil if absent or something else
}

// ContactRequests reads the contact requests of one insertion. The agency is not sent; it is for Before and for errors.
func (c *Client) ContactRequests(ctx context.Context, key Key, agency, reference string, q ContactRequestsQuery) (*ContactRequestsPage, error) {
	r := Request{Operation: OperationContactRequests, AgencyID: agency, Reference: reference}
	x, err := c.ask(ctx, key, r, q.values())
	if err != nil {
		return nil, err
	}
	return c.contactRequestsPage(x, q.NumberOfItemsPerPage)
}

const expectedContactRequests = "an array of contact requests"

func (c *Client) contactRequestsPage(x *exchange, size int) (*ContactRequestsPage, error) {
	e, err := x.answer(expectedContactRequests)
	if err != nil {
		return nil, err
	}
	l, wrong := e.contactRequestList(c.o)
	if wrong != "" {
		return nil, x.drift(expectedContactRequests, wrong)
	}
	if l.tooLong() {
		return nil, x.drift("a page of records", "more records than fit any page")
	}
	page := &ContactRequestsPage{Envelope: x.envelope(size)}
	page.Path = string(l.path)
	total := 0
	for raw := range elements(l.raw) {
		total++
		if raw.Kind() != jsontext.KindBeginObject {
			page.Unreadable++
			continue
		}
		r := c.contactRequest(raw)
		if r.Reference != "" && r.Reference != x.request.Reference {
			return nil, x.drift("contact requests of the insertion that was asked for", "one of another")
		}
		page.ContactRequests = append(page.ContactRequests, r)
	}
	page.Total = e.totalOf(l, total, x)
	return page, nil
}

func (c *Client) contactRequest(raw jsontext.Value) ContactRequest {
	var r ContactRequest
	r.Record, r.Defects = compact(raw)
	o := parse(jsontext.Value(r.Record))
	r.Reference = o.reference()
	created, unreadable := o.created(c.o.TimeZone)
	if r.CreatedAt = created; unreadable {
		r.Defects = append(r.Defects, DefectTime)
		slices.Sort(r.Defects)
	}
	r.Score = o.score()
	return r
}

// contactRequestList finds the list of contact requests, or says what was found in its place.
func (e *envelope) contactRequestList(o Options) (list, string) {
	if o.ContactRequestsPath != "" {
		l, ok := at(e.root, jsontext.Pointer(o.ContactRequestsPath))
		if !ok || l.raw.Kind() != jsontext.KindBeginArray || !isEmpty(l.raw) && objects(l) == 0 {
			return list{}, "no array of objects at the configured path; " + describe(e.root)
		}
		return l, ""
	}
	if l, ok := e.filledList(o.IDFields); ok {
		return l, ""
	}
	if e.noneByTotal() && !e.unhappy() {
		return list{}, ""
	}
	return list{}, describe(e.root)
}

// filledList goes from what is surest to what is least sure. An empty list whose name says "contact requests" counts more
// than any other that is not empty; an empty one with a general name does not.
func (e *envelope) filledList(idFields []string) (list, bool) {
	none := func(names []string) func(list) bool {
		return func(l list) bool { return l.depth <= 2 && isEmpty(l.raw) && named(l.name, names) && !e.unhappy() }
	}
	rules := []func(list) bool{
		func(l list) bool { return l.depth == 0 && objects(l) > 0 },
		func(l list) bool { return named(l.name, contactNames) && objects(l) > 0 },
		none(contactNames),
		func(l list) bool { return named(l.name, genericNames) && hints(l, surest) > 0 },
		e.only(func(l list) bool { return hints(l, surest) > 0 }),
		func(l list) bool { return named(l.name, genericNames) && objects(l) > 0 },
		func(l list) bool { return l.depth == 0 && isEmpty(l.raw) },
		none(genericNames),
		e.only(func(l list) bool { return hints(l, personal) > 0 || hints(l, idFields) > 0 }),
		e.only(func(l list) bool { return objects(l) > 0 }),
	}
	for _, rule := range rules {
		if i := slices.IndexFunc(e.lists, rule); i >= 0 {
			return e.lists[i], true
		}
	}
	return list{}, false
}

// only makes a rule that holds for one list or for none: which of two is meant would be a guess.
func (e *envelope) only(rule func(list) bool) func(list) bool {
	matching := 0
	for _, l := range e.lists {
		if rule(l) {
			matching++
		}
	}
	return func(l list) bool { return matching == 1 && rule(l) }
}

// Names that tell a contact request: what can be sorted by, and what a person has.
var (
	surest   = []string{"createdAt", "score"}
	personal = []string{"email", "phone", "message", "contact", "sender"}
)

// hints counts the elements that have a member with one of the names.
func hints(l list, names []string) (n int) {
	for raw := range elements(l.raw) {
		for name := range members(raw) {
			if named(name, names) {
				n++
				break
			}
		}
	}
	return n
}
