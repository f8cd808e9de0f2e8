package listings

import (
	"context"
	"encoding/json"
	"iter"
	"net/url"
	"slices"
	"strconv"
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

// encode is the query. That of nearly all requests needs no escaping.
func (q ContactRequestsQuery) encode() string {
	if q.NumberOfItemsPerPage <= 0 || q.SortBy != "createdAt" || q.SortOrder != "desc" {
		return encodeQuery(q.values())
	}
	return "numberOfItemsPerPage=" + strconv.Itoa(q.NumberOfItemsPerPage) + "&sortBy=createdAt&sortOrder=desc"
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
	Minutes   bool            // CreatedAt was told without seconds
	Score     json.RawMessage // number, text or null, as sent; nil if absent or something else

	read *decoded // nil: nobody has
}

// decoded is what was found in a record when it was decoded, so that nobody has to look for it again.
type decoded struct {
	members object   // nil: they would take much more room than the record
	contact *Contact // nil: nobody has asked for it
	digest  [32]byte // without the score and what is ignored
	ignored []string // by that digest
	whole   bool     // there is one
}

// leastMember is how many bytes of a record a member takes at the least, on average, where members are kept: each takes 56 more,
// and a page may be full of those that take five.
const leastMember = 16

func (c ContactRequest) object() object {
	if c.read != nil && c.read.members != nil {
		return c.read.members
	}
	return parse(jsontext.Value(c.Record))
}

// ContactRequests reads the contact requests of one insertion. The agency is not sent; it is for Before and for errors.
func (c *Client) ContactRequests(ctx context.Context, key Key, agency, reference string, q ContactRequestsQuery) (*ContactRequestsPage, error) {
	r := Request{Operation: OperationContactRequests, AgencyID: agency, Reference: reference}
	x, err := c.ask(ctx, key, r, q.encode(), q.Expect)
	if err != nil {
		return nil, err
	}
	defer x.release()
	return c.contactRequestsPage(x, q.NumberOfItemsPerPage)
}

const expectedContactRequests = "an array of contact requests"

func (c *Client) contactRequestsPage(x *exchange, size int) (*ContactRequestsPage, error) {
	page := &ContactRequestsPage{Envelope: c.envelope(x, size)}
	if page.NotModified {
		return page, nil
	}
	if page.Hashes, page.Same, _ = c.recognise(x); page.Same {
		return page, nil
	}
	e, err := x.answer(expectedContactRequests)
	if err != nil {
		return nil, err
	}
	l, err := x.find(e, e.contactRequests(c.o.IDFields), c.o.ContactRequestsPath)
	if err != nil {
		return nil, err
	}
	expected, _ := c.expectedPath(x)
	page.place(l, expected)
	if err := c.readContactRequests(page, x, l); err != nil {
		return nil, err
	}
	page.Total = e.totalOf(l, l.count, x.header)
	return page, nil
}

// contactRequests says how contact requests are told: by what their list is called or looks like.
func (e *envelope) contactRequests(idFields []string) sought {
	anywhere := func(strict bool) (list, bool) {
		e := e.withoutParts(idFields)
		l, ok := e.first(e.contactRules(idFields, strict))
		if other, sure := e.instead(l, idFields); ok && isEmpty(l.raw) && (!sure || other.path != l.path) {
			return list{}, false // it would be a guess here, as it would be where it is learned
		}
		return l, ok
	}
	return sought{
		what: expectedContactRequests, names: contactNames,
		fits:     hasObjects,
		anywhere: anywhere,
		isRecord: func(o jsontext.Value) bool { return parse(o).isLoneContactRequest(idFields) },
		none:     func() (list, bool) { return anywhere(false) },
		instead:  func(learned list) (list, bool) { return e.instead(learned, idFields) },
	}
}

// instead is what to take where a learned list stands next to others that unmistakably hold contact requests, as where a
// service keeps those that were read apart: the other one where the learned one is empty and its name does not say that
// there are none; neither where it would be a guess.
func (e *envelope) instead(learned list, idFields []string) (list, bool) {
	if learned.depth == 0 || named(learned.name, contactNames) {
		return learned, true
	}
	var others []list
	for _, l := range e.withoutParts(idFields).lists {
		if l.path != learned.path && l.path.Parent() == learned.path.Parent() && !named(l.name, sideNames) && hints(l, surest) > 0 && hints(l, personal) > 0 {
			others = append(others, l)
		}
	}
	switch none := isEmpty(learned.raw); {
	case len(others) == 0 || !none && named(learned.name, genericNames):
		return learned, true
	case none && len(others) == 1:
		return others[0], true
	}
	return list{}, false
}

// withoutParts is the envelope without the lists that are part of one contact request which stands where an array belongs:
// its telephone numbers, or when it would like to come. A list that looks more like contact requests than what is around
// it stays.
func (e *envelope) withoutParts(idFields []string) *envelope {
	isPart := func(l list) bool {
		return slices.ContainsFunc(l.around, func(o object) bool {
			return o.isLoneContactRequest(idFields) && (hints(l, surest) == 0 || o.hint(personal, 0) && hints(l, personal) == 0)
		})
	}
	return &envelope{root: e.root, top: e.top, lists: slices.DeleteFunc(slices.Clone(e.lists), isPart)}
}

// contactRules go from what is surest to what is least sure. An empty list whose name says "contact requests" counts more
// than any other that is not empty; an empty one with a general name does not. The strict ones, for where another place
// was expected, take no list that only might be one.
func (e *envelope) contactRules(idFields []string, strict bool) []func(list) bool {
	none := func(names []string) func(list) bool {
		return func(l list) bool { return !strict && l.depth <= 2 && isEmpty(l.raw) && named(l.name, names) }
	}
	weak := func(rule func(list) bool) func(list) bool {
		if strict || e.namesAList() {
			return func(list) bool { return false }
		}
		return e.only(rule)
	}
	hinting := func(l list) bool { return hasObjects(l) && hints(l, surest) > 0 }
	return []func(list) bool{
		func(l list) bool { return l.depth == 0 && hasObjects(l) },
		func(l list) bool { return named(l.name, contactNames) && hasObjects(l) },
		none(contactNames),
		func(l list) bool { return named(l.name, genericNames) && hinting(l) },
		e.only(hinting),
		func(l list) bool { return !strict && named(l.name, genericNames) && hasObjects(l) },
		func(l list) bool { return !strict && l.depth == 0 && isEmpty(l.raw) },
		none(genericNames),
		weak(func(l list) bool { return hasObjects(l) && (hints(l, personal) > 0 || hints(l, idFields) > 0) }),
		weak(func(l list) bool { return hasObjects(l) && !named(l.name, sideNames) }),
	}
}

func (e *envelope) first(rules []func(list) bool) (list, bool) {
	for _, rule := range rules {
		if i := slices.IndexFunc(e.lists, rule); i >= 0 {
			return e.lists[i], true
		}
	}
	return list{}, false
}

// namesAList says whether a member is called like a list of records and is neither one nor an object around one: then no
// other list stands in for it.
func (e *envelope) namesAList() bool {
	for _, f := range e.top {
		if f.value.Kind() != jsontext.KindBeginArray && f.value.Kind() != jsontext.KindBeginObject &&
			(named(f.name, contactNames) || named(f.name, genericNames)) {
			return true
		}
	}
	return false
}

// sideNames are lists of other things beside the records.
var sideNames = []string{
	"links", "facets", "filters", "aggregations", "sort", "sorts", "warnings", "messages", "notifications", "tags", "included",
}

// isFilled says whether an element may be a contact request: an object that is not empty and is not an error.
func isFilled(members iter.Seq2[string, jsontext.Value]) bool {
	some, failure := false, false
	for name, value := range members {
		if named(name, surest) || named(name, personal) && !SameName(name, "message") {
			return true
		}
		some = true
		failure = failure || (named(name, errorNames) || named(name, errorCodes)) && !isEmpty(value)
	}
	return some && !failure
}

var errorCodes = []string{"errorCode"}

// isLoneContactRequest says whether an object that stands where an array belongs is unmistakably a contact request: it has
// a time of creation or a score, an id or a person as well, and no member that an envelope would have.
func (o object) isLoneContactRequest(idFields []string) bool {
	var sure, whose int
	for _, f := range o {
		name, value := f.name, f.value
		nested := value.Kind() == jsontext.KindBeginArray || value.Kind() == jsontext.KindBeginObject
		switch {
		case named(name, totalNames), named(name, errorNames), named(name, successNames),
			nested && (named(name, genericNames) || named(name, contactNames)) && !areAddresses(name, value):
			return false
		case named(name, surest):
			sure++
		case named(name, personal), named(name, idFields):
			whose++
		}
	}
	return sure > 1 || sure > 0 && whose > 0
}

// areAddresses says whether a list of e-mails is one of addresses: some services call the requests themselves so.
func areAddresses(name string, value jsontext.Value) bool {
	return SameName(name, "emails") && value.Kind() == jsontext.KindBeginArray &&
		hints(list{raw: value}, surest)+hints(list{raw: value}, []string{"message", "contact", "sender", "contactRequest"}) == 0
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
	surest   = []string{"createdAt", "score", "creationDate", "dateCreated", "createdDate", "dateReceived", "receivedAt"}
	personal = []string{"email", "phone", "message", "contact", "sender", "contactRequest"}
)

// hints counts the elements that have a member with one of the names, directly or in an object around the request.
func hints(l list, names []string) (n int) {
	for raw := range elements(l.raw) {
		if parse(raw).hint(names, 1) {
			n++
		}
	}
	return n
}

func (o object) hint(names []string, deeper int) bool {
	for _, f := range o {
		if named(f.name, names) || deeper > 0 && slices.Contains(wrapperNames, f.plain) && parse(f.value).hint(names, deeper-1) {
			return true
		}
	}
	return false
}
