package listings

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

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
	for _, sort := range [][2]string{{"sortBy", q.SortBy}, {"sortOrder", q.SortOrder}} {
		if sort[1] != "" {
			v.Set(sort[0], sort[1])
		}
	}
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
	Record      json.RawMessage // compact, member order and texts as sent, always proper JSON
	Defects     []string        // what is wrong with the record: the Defect constants, sorted
	CreatedAt   time.Time       // UTC; zero if absent or unreadable
	CreatedForm string          // how it is told: the Form constants
	Minutes     bool            // CreatedAt was told without seconds
	Score       json.RawMessage // number, text or null, as sent; nil if absent or something else

	decoded value // the record; absent: it is decoded when it is wanted
}

func (c ContactRequest) value() value {
	if c.decoded == (value{}) {
		c.decoded, _ = decode(c.Record)
	}
	return c.decoded
}

func (c ContactRequest) object() object { return c.value().object() }

// ContactRequests reads the contact requests of one insertion. The agency is not sent; the Gate and errors name it.
func (c *Client) ContactRequests(ctx context.Context, key Key, agency, reference string, q ContactRequestsQuery) (*ContactRequestsPage, error) {
	r := Request{Operation: OperationContactRequests, AgencyID: agency, Reference: reference}
	x, err := c.ask(ctx, key, r, spaced(q.values().Encode()), q.Expect)
	if err != nil {
		return nil, err
	}
	return c.contactRequestsPage(x, q.NumberOfItemsPerPage)
}

func (c *Client) contactRequestsPage(x *exchange, size int) (*ContactRequestsPage, error) {
	page := &ContactRequestsPage{Envelope: c.envelope(x, size)}
	if page.recognise(x) {
		return page, nil
	}
	l, total, err := x.locate(contactRequestRecords, c.idNames, c.o.ContactRequestsPath)
	if err != nil {
		return nil, err
	}
	canonical := make([]byte, 0, len(x.body))
	for element := range l.records() {
		canonical = element.appendCanonical(canonical, c.unread, scoreLevels)
	}
	if page.located(x, l, total, canonical) {
		return page, nil
	}
	for element := range l.records() {
		if !isFilled(element) {
			page.Unreadable++
			continue
		}
		r, other := c.contactRequest(element, x.request)
		if other != "" {
			return nil, x.drift("contact requests of what was asked for", other)
		}
		page.ContactRequests = append(page.ContactRequests, r)
	}
	return page, nil
}

// contactRequest reads an element of the list. other says that it is one of something else.
func (c *Client) contactRequest(element value, asked Request) (r ContactRequest, other string) {
	r.decoded, r.Record, r.Defects = compact(element)
	o := r.object()
	if named := o.references(); len(named) > 0 && !slices.Contains(named, asked.Reference) {
		return r, "one of another insertion"
	}
	if r.decoded.isForeign(asked.AgencyID) {
		return r, "one of another agency"
	}
	if r.CreatedAt, r.CreatedForm, r.Minutes = o.created(c.o.TimeZone); r.CreatedForm == FormUnreadable {
		r.Defects = append(r.Defects, DefectTime)
		slices.Sort(r.Defects)
	}
	r.Score = o.score()
	return r, ""
}

// references are those that a contact request names: its own, else those of objects in it such as "property". One may be
// that of a similar property.
func (o object) references() []string {
	for _, name := range referenceNames {
		if s, ok := o.get(name).scalar(); ok && s != "" {
			return []string{s}
		}
	}
	var list []string
	for _, m := range o {
		if s := m.reference(); s != "" {
			list = append(list, s)
			continue
		}
		if !m.isCalled(wrapperNames) {
			continue
		}
		for inner := range m.members() {
			if s := inner.reference(); s != "" {
				list = append(list, s)
			}
		}
	}
	return list
}

// score is passed on as it is: number, text or null.
func (o object) score() json.RawMessage {
	score := o.get("score")
	for _, name := range wrapperNames {
		if score == (value{}) {
			score = o.object(name).get("score")
		}
	}
	switch score.kind() {
	case jsontext.KindNumber, jsontext.KindString, jsontext.KindNull:
		return json.RawMessage(score.raw())
	}
	return nil
}

// ID is what a member of that name says, directly, in the metadata or in an object around the request: a text, or the
// text of a number, so that 1 and "1" are the same. It is empty if the member is absent, null or something else. A name in
// another style counts where the name itself is not there.
func (c ContactRequest) ID(name string) string {
	o := c.object()
	if v, ok := o.styled(name); ok {
		id, _ := v.scalar()
		return id
	}
	for inner := range o.all(wrapperNames...) {
		if v, ok := inner.object().styled(name); ok {
			id, _ := v.scalar()
			return id
		}
	}
	return ""
}

// styled is the member of that name, else the first whose name is like it.
func (o object) styled(name string) (found value, ok bool) {
	for m := range o.all(plain(name)) {
		if m.called().text == name {
			return m, true
		}
		if !ok {
			found, ok = m, true
		}
	}
	return found, ok
}

// Digest is that of the record without what the pointers in ignore lead to, and without the score, however it is spelled,
// its own and one level down.
func (c ContactRequest) Digest(ignore []string) [32]byte {
	return c.value().digest(tokens(ignore), true)
}

// Fingerprint is the same for the same contact request, whatever its id, its score, and the style of names: a hash over
// reference, creation time (its text, where it is a date that cannot be read), e-mail, phone and message. Where none of the last four is
// there, all of the record but the score stands in for them.
func (c ContactRequest) Fingerprint(reference string) (fingerprint [16]byte) {
	p := c.Contact()
	phone := cmp.Or(p.Phone, p.PhoneRaw)
	created := c.CreatedAt.UTC().Format(time.RFC3339Nano)
	if c.CreatedAt.IsZero() {
		created = c.object().written()
	}
	parts := []string{reference, created, strings.ToLower(p.Email), phone, p.Message}
	if c.CreatedAt.IsZero() && strings.Join(parts[2:], "") == "" {
		digest := c.Digest(nil)
		parts = append(parts, string(digest[:]))
	}
	b := make([]byte, 0, 512)
	for _, part := range parts {
		b = binary.AppendUvarint(b, uint64(len(part)))
		b = append(b, part...)
	}
	sum := sha256.Sum256(b)
	copy(fingerprint[:], sum[:])
	return fingerprint
}

// Field is one field of a contact request, told by its digest: enough to see that it changed, too little to know it.
type Field struct {
	Name   string   // as sent; "contact/phone" for a member of what holds the person
	Digest [32]byte // of the value in canonical form
	Empty  bool     // null, "", [] or {}
	Erased bool     // empty, and personal data where it is not
}

// maxFields bounds what has to be remembered of a record; more members than that are no contact request.
const maxFields = 256

// Fields lists the members of the record by name, sorted, without the score. Members that hold the person, or all of the
// request, are replaced by their own members, two levels down. At most 256.
func (c ContactRequest) Fields() []Field {
	o := c.object()
	list := fieldsOf(make([]Field, 0, len(o)), o, "", false, 2)
	slices.SortFunc(list, func(a, b Field) int { return strings.Compare(a.Name, b.Name) })
	return list[:min(len(list), maxFields)]
}

func fieldsOf(list []Field, o object, prefix string, person bool, deeper int) []Field {
	for _, m := range o {
		name := m.called()
		if name.plain == "score" && !person {
			continue
		}
		if deeper > 0 && m.isObject() && !m.isEmpty() && (m.isCalled(wrapperNames) || m.isCalled(personNames)) {
			list = fieldsOf(list, m.object(), prefix+name.text+"/", person || !m.isCalled(wrapperNames), deeper-1)
			continue
		}
		empty := m.isEmpty()
		list = append(list, Field{prefix + name.text, m.digest(nil, false), empty, empty && (person || m.isCalled(personFields))})
	}
	return list
}
