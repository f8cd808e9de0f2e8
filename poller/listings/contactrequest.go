package listings

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"hash/maphash"
	"iter"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/text/unicode/norm"
)

// ContactRequestsQuery are the parameters of the contact requests of an insertion. Zero values are
// left out.
type ContactRequestsQuery struct {
	NumberOfItemsPerPage int
	SortBy               string // score or createdAt
	SortOrder            string // asc or desc
	Place                Place  // of earlier responses; it is no parameter, nor is the next one

	// Settled is asked with the sum of a response. What it says yes to is not read.
	Settled func(Sum) bool
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

// ContactRequestsPage is what the API shows of the contact requests of an insertion, in the order
// of the response. An id may stand on it twice. Where Found is false, the response is "none"
// without a list: empty, null, or a total of 0.
type ContactRequestsPage struct {
	Envelope
	ContactRequests []ContactRequest
}

// ContactRequest is one inquiry. Its record is personal data.
type ContactRequest struct {
	// compact, texts as sent; with defects in canonical form; always proper JSON
	Record      json.RawMessage
	Defects     []string        // what is wrong with the record: the Defect constants, sorted
	CreatedAt   time.Time       // UTC; zero if absent or unreadable
	CreatedForm string          // how it is written: the Form constants
	Score       json.RawMessage // number, text or null, as sent; nil if absent or something else

	decoded value // the record; absent: it is decoded when it is wanted
}

// HasZone reports whether the creation time says where on earth it was read off a clock.
func (c ContactRequest) HasZone() bool { return c.CreatedForm != FormZoneless }

func (c ContactRequest) value() value {
	if c.decoded.raw == nil {
		v, _ := decode(c.Record)
		return v
	}
	return c.decoded
}

func (c ContactRequest) object() object { return c.value().object() }

// ContactRequests reads the contact requests of one insertion. The agency is not sent; the Gate and
// errors name it.
func (c *Client) ContactRequests(ctx context.Context, key Key, agency, reference string,
	q ContactRequestsQuery,
) (*ContactRequestsPage, error) {
	r := Request{Operation: OperationContactRequests, AgencyID: agency, Reference: reference}
	query := spaced(q.values().Encode())
	x, err := c.ask(ctx, key, r, query, q.Place)
	if err != nil {
		return nil, err
	}
	defer x.drop()
	if q.Settled != nil && q.Settled(x.sum) {
		page := &ContactRequestsPage{Envelope: x.envelope()}
		page.Settled = true
		return page, nil
	}
	return c.contactRequestsPage(x)
}

func (c *Client) contactRequestsPage(x *exchange) (*ContactRequestsPage, error) {
	if e := x.envelope(); e.Total <= 0 && x.saysNothing() {
		return &ContactRequestsPage{Envelope: e}, nil
	}
	e, elements, err := x.find(contactNames, c.idNames, c.o.ContactRequestsPath)
	if err != nil {
		return nil, err
	}
	page := &ContactRequestsPage{Envelope: e}
	strangers, other := 0, ""
	for _, element := range elements {
		r, stranger := c.contactRequest(element, x.request)
		if stranger != "" {
			strangers, other = strangers+1, stranger
		}
		page.ContactRequests = append(page.ContactRequests, r)
	}
	if 2*strangers > len(elements) {
		return nil, x.drift("contact requests of the requested insertion", other)
	}
	return page, nil
}

// saysNothing reports whether the body is empty or null, which is "none" where contact requests
// were asked for.
func (x *exchange) saysNothing() bool {
	body := bytes.TrimSpace(trimBOM(x.body))
	return !x.declaresFailure() && (len(body) == 0 || string(body) == "null")
}

// contactRequest reads an element of the list. stranger says that it names something else than what
// was asked for: one such record is odd, and is still read; most of them are the response to
// another question.
func (c *Client) contactRequest(element value, asked Request) (r ContactRequest, stranger string) {
	r.decoded, r.Record, r.Defects = compact(element)
	o := r.object()
	isAsked := func(s string) bool { return sameReference(s, asked.Reference) }
	if named := r.decoded.references(); len(named) > 0 && !slices.ContainsFunc(named, isAsked) {
		stranger = "one of another insertion"
	}
	if o.isForeign(asked.AgencyID) {
		stranger = "one of another agency"
	}
	if r.CreatedAt, r.CreatedForm = o.created(c.o.TimeZone); r.CreatedForm == FormUnreadable {
		r.Defects = append(r.Defects, DefectTime)
		slices.Sort(r.Defects)
	}
	r.Score = o.score()
	return r, stranger
}

// sameReference reports whether two texts name one property: spellings differ in escapes, white
// space, composed letters, case, and the empty segments at the end.
func sameReference(a, b string) bool { return a == b || plainReference(a) == plainReference(b) }

func plainReference(s string) string {
	if decoded, err := url.PathUnescape(s); err == nil {
		s = decoded
	}
	segments := strings.Split(strings.ToLower(norm.NFC.String(s)), "#")
	for n := range segments {
		segments[n] = strings.TrimSpace(segments[n])
	}
	return strings.TrimRight(strings.Join(segments, "#"), "#")
}

// references are those that a contact request names: its own, else those of objects in it such as
// "property". One may be that of a similar property.
func (v value) references() (list []string) {
	if own := v.reference(); own != "" {
		return []string{own}
	}
	for _, m := range v.object() {
		if !m.isObject() {
			continue
		}
		if named := m.reference(); named != "" {
			list = append(list, named)
		}
	}
	return list
}

// score is passed on as it is: number, text or null.
func (o object) score() json.RawMessage {
	for scope := range o.scopes() {
		switch score := scope.get("score"); score.kind() {
		case jsontext.KindNumber, jsontext.KindString, jsontext.KindNull:
			return json.RawMessage(score.raw)
		}
	}
	return nil
}

// ID is what a member of that name says, directly, in the metadata or in an object around the
// request: a text, or the text of a number, so that 1 and "1" are the same. It is empty if the
// member is absent, null or something else. A name in another style counts where the name itself is
// not there.
func (c ContactRequest) ID(name string) string {
	for scope := range c.object().scopes() {
		if v := scope.styled(name); v.raw != nil {
			id, _ := v.scalar()
			return id
		}
	}
	return ""
}

// scopes yields a record and then what it is wrapped in, but for its property, which has an id and
// a time of its own.
func (o object) scopes() iter.Seq[object] {
	return func(yield func(object) bool) {
		if !yield(o) {
			return
		}
		for inner := range o.all(scopeNames...) {
			isProperty := inner.reference() != "" && !inner.object().has(personal)
			if !isProperty && !yield(inner.object()) {
				return
			}
		}
	}
}

var scopeNames = append([]string{"meta"}, wrapperNames...)

// styled is the member of that name, else the first whose name is like it.
func (o object) styled(name string) value {
	for _, m := range o {
		if m.name.text == name {
			return m
		}
	}
	return o.get(plain(name))
}

// otherThings are what members called …Id or …Ref are about that name something else than the
// contact request.
var otherThings = regexp.MustCompile(
	`^(?:propertyreference|property|listing|insertion|object|realestate|estate|flat|agency|agent|lister|` +
		`customer|account|company|user|person|contact|sender|profile|session|visitor|portal|source|channel|platform|status|type|category|` +
		`language|country|template|campaign|tenant)(?:id|ref|reference|uuid|guid|key)$`)

// OtherID is a member that is called …Id or …Ref and is no candidate for the id: it may tell
// contact requests apart all the same.
type OtherID struct{ Name, Value string }

// likeID fits names that end in a word for an id, as in leadId, lead_id and lead-ref.
var likeID = regexp.MustCompile(`[_-](?i:(?:uu)?id|guid|ref(?:erence)?|key)$|` +
	`[a-z0-9](?:(?:UU)?I[dD]|Uuid|G(?:uid|UID)|R(?:ef|EF)(?:erence)?|K(?:ey|EY))$`)

// OtherIDs lists them by name, of the record and of what it is wrapped in.
func (c ContactRequest) OtherIDs(candidates []string) (list []OtherID) {
	candidates = plainNames(candidates)
	for scope := range c.object().scopes() {
		for _, m := range scope {
			s, ok := m.scalar()
			if ok && s != "" && likeID.MatchString(m.name.text) &&
				!otherThings.MatchString(m.name.plain) && !m.isCalled(candidates) {
				list = append(list, OtherID{m.name.plain, s})
			}
		}
	}
	slices.SortFunc(list, func(a, b OtherID) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(a.Value, b.Value))
	})
	return list
}

// Digest is that of the record without what is outside.
func (c ContactRequest) Digest(o Outside) [32]byte {
	return sha256.Sum256(c.value().canonical(o.ignored, o.ids, outsideLevels))
}

// Prints are two hashes by which a contact request is recognised, whatever its id, its score, and
// the style of names.
//
// The fingerprint is over reference, creation time to the second, name and message. Addresses and
// numbers rotate where a portal relays or masks them, so e-mail and phone are part of it only where
// there is no time, or neither name nor message. Without a time and all of these the record stands
// in for them.
//
// The content is over what the person wrote, wherever and whenever: name, e-mail, phone and
// message. It is zero where none of them is there.
func (c ContactRequest) Prints(reference string) (fingerprint [16]byte, content [8]byte) {
	p := c.Contact()
	name, words, email, phone := p.name(), p.words(), strings.ToLower(p.Email),
		cmp.Or(p.Phone, p.PhoneRaw)
	if name+email+phone+words != "" {
		sum := hashParts([]string{name, email, phone, words})
		copy(content[:], sum[:])
	}
	created := c.CreatedAt.UTC().Format(time.RFC3339)
	if c.CreatedAt.IsZero() {
		created = c.object().written()
	}
	parts := []string{reference, created, name, words}
	if c.CreatedAt.IsZero() || name+words == "" {
		parts = append(parts, email, phone)
	}
	if c.CreatedAt.IsZero() && strings.Join(parts[2:], "") == "" {
		digest := c.Digest(Outside{})
		parts = append(parts, string(digest[:]))
	}
	sum := hashParts(parts)
	copy(fingerprint[:], sum[:])
	return fingerprint, content
}

// name is that of the person, in whatever members it stands.
func (p Contact) name() string {
	full := cmp.Or(strings.TrimSpace(p.FirstName+" "+p.LastName), p.FullName, p.Company)
	return strings.ToLower(strings.Join(strings.Fields(full), " "))
}

// words are the message without addresses of pages, which portals sign again for each reader.
func (p Contact) words() string { return webAddress.ReplaceAllString(p.Message, "") }

var webAddress = regexp.MustCompile(`https?://[^\s<>"]+`)

func hashParts(parts []string) [32]byte {
	b := make([]byte, 0, 512)
	for _, part := range parts {
		b = binary.AppendUvarint(b, uint64(len(part)))
		b = append(b, part...)
	}
	return sha256.Sum256(b)
}

// Leaves hashes what the record holds, by JSON pointer and without the score: objects are looked
// into three levels deep, arrays are taken whole. At most 256. The hashes are of this process and
// of no use to another one.
func (c ContactRequest) Leaves() map[string]uint64 {
	all := map[string]uint64{}
	leaves(all, c.object(), "", 3)
	return all
}

var leafSeed = maphash.MakeSeed()

func leaves(all map[string]uint64, o object, at jsontext.Pointer, deeper int) {
	for _, m := range o {
		inner := at.AppendToken(m.name.text)
		switch {
		case len(all) == maxFields || m.name.plain == "score":
		case m.isObject() && deeper > 1:
			leaves(all, m.object(), inner, deeper-1)
		default:
			all[string(inner)] = maphash.Bytes(leafSeed, m.raw)
		}
	}
}

// PersonField is a member that holds personal data, or held some.
type PersonField struct {
	Name  string // as sent; "contact/phone" for a member of what holds the person
	Empty bool   // null, "", [] or {}
}

// maxFields bounds what has to be remembered of a record; more members than that are no contact
// request.
const maxFields = 256

// PersonFields lists by name the members that hold the person. An object around the person is
// replaced by its own members, two levels down. At most 256.
func (c ContactRequest) PersonFields() []PersonField {
	list := personFieldsOf(nil, c.object(), "", false, 2)
	slices.SortFunc(list, func(a, b PersonField) int { return strings.Compare(a.Name, b.Name) })
	return list[:min(len(list), maxFields)]
}

func personFieldsOf(list []PersonField, o object, prefix string, person bool, deeper int) []PersonField {
	for _, m := range o {
		name, wraps := m.name, m.isCalled(wrapperNames)
		switch {
		case deeper > 0 && m.isObject() && !m.isEmpty() && (wraps || m.isCalled(personNames)):
			list = personFieldsOf(list, m.object(), prefix+name.text+"/", person || !wraps, deeper-1)
		case person || isPersonField[name.plain]:
			list = append(list, PersonField{prefix + name.text, m.isEmpty()})
		}
	}
	return list
}
