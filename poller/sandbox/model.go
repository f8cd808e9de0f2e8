package sandbox

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"time"
)

// ErrNotFound is returned when a change names an agency, a key, an insertion or a contact request
// that the model does not hold.
var ErrNotFound = errors.New("not found")

// Options of a [Model]. The zero value is usable.
type Options struct {
	// Now is the clock of the API. It decides what is visible and is what the Date header shows.
	// Default time.Now, which is right in a synctest bubble.
	Now func() time.Time
	// Seed decides the ids that the model gives to contact requests. The same seed and the same
	// order of changes give the same ids.
	Seed uint64
	// WithdrawnStatus answers contact requests of a withdrawn insertion: 200 (default) serves them
	// as before, 404 and 403 refuse.
	WithdrawnStatus int
	// KeepLog lets [Model.Log] remember all requests. Counters are always kept.
	KeepLog bool
}

// wall makes times comparable by ==, as they are after a trip through JSON.
func wall(t time.Time) time.Time { return t.Round(0).UTC() }

// Model is the world behind the API. All methods are safe for concurrent use; none blocks, so a
// model works inside a synctest bubble.
type Model struct {
	mu         sync.Mutex
	options    Options
	agencies   map[string]*agency
	keys       map[string]*key
	references map[string][]*insertion // in order of the first publication
	requests   map[string]*contactRequest
	sequence   uint64 // counts publications and contact requests
	fault      func(Call) *Fault
	counters   map[Filter]int // of requests; by reference as far as the model knows it
	log        []*Request
}

type agency struct {
	insertions []*insertion // in order of the last publication; those that are not listed, too
}

type key struct {
	label    string
	agencies map[string]bool
	active   bool
}

// NewModel returns an empty model: no agency, no key.
func NewModel(o Options) *Model {
	clock := o.Now
	if clock == nil {
		clock = time.Now
	}
	o.Now = func() time.Time { return wall(clock()) }
	o.WithdrawnStatus = cmp.Or(o.WithdrawnStatus, http.StatusOK)
	return &Model{
		options:    o,
		agencies:   map[string]*agency{},
		keys:       map[string]*key{},
		references: map[string][]*insertion{},
		requests:   map[string]*contactRequest{},
		counters:   map[Filter]int{},
	}
}

// AddAgency makes an agency exist. Adding it again changes nothing.
func (m *Model) AddAgency(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.agencies[id] == nil {
		m.agencies[id] = &agency{}
	}
}

// AddKey makes a key valid and links it to the agencies, beside those that it has; it returns the
// label under which requests with this key are counted ("key-1", "key-2", … in order of adding). A
// key that was deactivated is valid again. The agencies need not exist: a link to one that does not
// is answered with 403.
func (m *Model) AddKey(value string, agencies ...string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.keys[value]
	if k == nil {
		k = &key{label: "key-" + strconv.Itoa(len(m.keys)+1), agencies: map[string]bool{}}
		m.keys[value] = k
	}
	k.active = true
	for _, id := range agencies {
		k.agencies[id] = true
	}
	return k.label
}

// UnlinkKey takes agencies away from a key, which is answered with 403 for them from now on.
func (m *Model) UnlinkKey(value string, agencies ...string) error {
	return m.changeKey("unlink", value, func(k *key) {
		for _, id := range agencies {
			delete(k.agencies, id)
		}
	})
}

// DeactivateKey ends a key, the last step of a rotation. Until then the old and the new key are
// both valid.
func (m *Model) DeactivateKey(value string) error {
	return m.changeKey("deactivate", value, func(k *key) { k.active = false })
}

func (m *Model) changeKey(verb, value string, change func(*key)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := m.keys[value]
	if k == nil {
		return fmt.Errorf("%s key: %w", verb, ErrNotFound)
	}
	change(k)
	return nil
}

// insertion returns nil if the agency never published the reference. The lock is held.
func (m *Model) insertion(agencyID, reference string) *insertion {
	for _, i := range m.references[reference] {
		if i.AgencyID == agencyID {
			return i
		}
	}
	return nil
}

// visible finds an insertion that is on the list, to be changed. The lock is held.
func (m *Model) visible(verb, agencyID, reference string) (*insertion, error) {
	if i := m.insertion(agencyID, reference); i != nil && i.listed() {
		return i, nil
	}
	return nil, fmt.Errorf("%s %s of %s: %w", verb, reference, agencyID, ErrNotFound)
}

// next returns a number that was never given before. The lock is held.
func (m *Model) next() uint64 {
	m.sequence++
	return m.sequence
}

// newID has the form of a UUID and depends only on the seed and the number of changes before it.
// The lock is held.
func (m *Model) newID() string {
	var in [16]byte
	binary.BigEndian.PutUint64(in[:8], m.options.Seed)
	binary.BigEndian.PutUint64(in[8:], m.next())
	h := sha256.Sum256(in[:])
	h[6] = h[6]&0x0f | 0x40
	h[8] = h[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", h[0:4], h[4:6], h[6:8], h[8:10], h[10:16])
}

func (m *Model) now() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.options.Now()
}

// Insertion is the record of a published property. Everything but the reference may be left out;
// zero values do not appear in responses. The JSON form is the one of the API's record, so that
// [Control] takes records as they are.
type Insertion struct {
	Reference       string          `json:"propertyReferenceId"`
	ID              int64           `json:"id,omitzero"` // zero: given by the model
	OfferType       string          `json:"offerType,omitempty"`
	RankType        string          `json:"rankType,omitempty"`
	Address         Address         `json:"address,omitzero"`
	Characteristics Characteristics `json:"characteristics,omitzero"`
	Prices          Prices          `json:"prices,omitzero"`
	Localization    Localization    `json:"localization,omitzero"`
	AvailableFrom   string          `json:"availableFrom,omitempty"` // a date, 2027-01-01
	// zero: the moment of publication
	CreatedAt time.Time `json:"createdAt,omitzero"`
	// Extra members stand beside the others in a response.
	Extra map[string]json.RawMessage `json:"extra,omitempty"`
}

// Address of a property.
type Address struct {
	Street     string `json:"street,omitempty"`
	PostalCode string `json:"postalCode,omitempty"`
	Locality   string `json:"locality,omitempty"`
}

// Characteristics of a property.
type Characteristics struct {
	NumberOfRooms float64 `json:"numberOfRooms,omitzero"`
	LivingSpace   int     `json:"livingSpace,omitzero"` // square metres
	Floor         int     `json:"floor,omitzero"`
	HasBalcony    bool    `json:"hasBalcony,omitzero"`
	HasElevator   bool    `json:"hasElevator,omitzero"`
}

// Prices of a property, in whole units of the currency.
type Prices struct {
	Currency string `json:"currency,omitempty"`
	Rent     Rent   `json:"rent,omitzero"`
	Buy      struct {
		Price int `json:"price,omitzero"`
	} `json:"buy,omitzero"`
}

// Rent is what a tenant pays per interval.
type Rent struct {
	Net      int    `json:"net,omitzero"`
	Extra    int    `json:"extra,omitzero"`
	Gross    int    `json:"gross,omitzero"`
	Interval string `json:"interval,omitempty"`
}

// Localization holds the texts, by language.
type Localization struct {
	Primary string    `json:"primary,omitempty"`
	DE      Localized `json:"de,omitzero"`
	FR      Localized `json:"fr,omitzero"`
	IT      Localized `json:"it,omitzero"`
	EN      Localized `json:"en,omitzero"`
}

// Localized is what a record says in one language.
type Localized struct {
	Text struct {
		Title string `json:"title,omitempty"`
	} `json:"text,omitzero"`
}

func (i Insertion) clone() Insertion {
	i.Extra = maps.Clone(i.Extra)
	return i
}

// insertion is a reference of one agency with its whole past. Contact requests belong to the
// reference: published again, it has the old ones back.
type insertion struct {
	InsertionTruth
	contactRequests []*contactRequest // ascending by creation time
}

func (i *insertion) listed() bool {
	return len(i.Visible) > 0 && i.Visible[len(i.Visible)-1].Until.IsZero()
}

// Publish makes an insertion visible. A reference that was withdrawn comes back with its contact
// requests and the id it had; one that is visible gets the new record in place of the old.
func (m *Model) Publish(agencyID string, record Insertion) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if record.Reference == "" {
		return fmt.Errorf("publish in agency %s: the reference is empty", agencyID)
	}
	a := m.agencies[agencyID]
	if a == nil {
		return fmt.Errorf("publish in agency %s: %w", agencyID, ErrNotFound)
	}
	i := m.insertion(agencyID, record.Reference)
	if i == nil {
		i = &insertion{InsertionTruth: InsertionTruth{AgencyID: agencyID, Reference: record.Reference}}
	}
	now := m.options.Now()
	if record.ID == 0 && len(i.Versions) > 0 {
		record.ID = newest(i.Versions).Record.ID
	}
	if record.ID == 0 {
		record.ID = 4_001_000_000 + int64(m.next())
	}
	if record.CreatedAt.IsZero() {
		record.CreatedAt = now
	}
	record.CreatedAt = wall(record.CreatedAt)
	if err := revise(&i.Versions, record, now); err != nil {
		return err
	}
	if len(i.Versions) == 1 {
		m.references[i.Reference] = append(m.references[i.Reference], i)
	}
	if !i.listed() {
		i.Visible = append(i.Visible, Interval{From: now})
		a.insertions = append(slices.DeleteFunc(a.insertions, func(x *insertion) bool { return x == i }), i)
	}
	return nil
}

// Edit changes the record of a visible insertion. The function may change everything but the
// reference and must not call the model; if it changes nothing, nothing happened.
func (m *Model) Edit(agencyID, reference string, change func(*Insertion)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	i, err := m.visible("edit", agencyID, reference)
	if err != nil {
		return err
	}
	before := newest(i.Versions).Record
	after := before.clone()
	change(&after)
	after.Reference = reference
	if reflect.DeepEqual(before, after) {
		return nil
	}
	return revise(&i.Versions, after, m.options.Now())
}

// Withdraw takes a visible insertion off the list. What its contact requests are answered with
// afterwards is decided by [Options].WithdrawnStatus.
func (m *Model) Withdraw(agencyID, reference string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	i, err := m.visible("withdraw", agencyID, reference)
	if err != nil {
		return err
	}
	i.Visible[len(i.Visible)-1].Until = m.options.Now()
	return nil
}

// records are those of an agency's insertions, in order of their last publication: the visible or
// the withdrawn ones.
func (m *Model) records(agencyID string, listed bool) (records []Insertion) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if a := m.agencies[agencyID]; a != nil {
		for _, i := range a.insertions {
			if i.listed() == listed {
				records = append(records, newest(i.Versions).Record.clone())
			}
		}
	}
	return records
}

func (m *Model) listedReferences(agencyID string) (references []string) {
	for _, record := range m.records(agencyID, true) {
		references = append(references, record.Reference)
	}
	return references
}

// ContactRequest is an inquiry about an insertion. The JSON form is what [Control] takes; how a
// response shows it is up to the [Rendering].
type ContactRequest struct {
	ID string `json:"id,omitempty"` // empty: given by the model
	// CreatedAt may lie in the past, for old and for late ones. Zero: now.
	CreatedAt time.Time `json:"createdAt,omitzero"`
	// VisibleFrom delays its appearance in responses. Before now: now.
	VisibleFrom time.Time `json:"visibleFrom,omitzero"`
	Score       float64   `json:"score"`
	Salutation  string    `json:"salutation,omitempty"`
	FirstName   string    `json:"firstName,omitempty"`
	LastName    string    `json:"lastName,omitempty"`
	Email       string    `json:"email,omitempty"`
	Phone       string    `json:"phone,omitempty"`
	Language    string    `json:"language,omitempty"`
	Message     string    `json:"message,omitempty"`

	ViewingTimes []string `json:"viewingTimes,omitempty"`
	Status       string   `json:"status,omitempty"`
	// Redacted shows the fields of the person as null; see [Model.Redact].
	Redacted bool `json:"redacted,omitzero"`
	// Extra members stand beside the others in a response.
	Extra map[string]json.RawMessage `json:"extra,omitempty"`
}

func (c ContactRequest) clone() ContactRequest {
	c.ViewingTimes = slices.Clone(c.ViewingTimes)
	c.Extra = maps.Clone(c.Extra)
	return c
}

type contactRequest struct {
	ContactRequestTruth
	owner    *insertion
	sequence uint64
}

// AddContactRequest adds an inquiry to an insertion, visible or withdrawn, and returns its id. It
// appears in responses from the moment of this call on, or later if VisibleFrom says so, whatever
// CreatedAt is.
func (m *Model) AddContactRequest(agencyID, reference string, record ContactRequest) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := m.insertion(agencyID, reference)
	if i == nil {
		return "", fmt.Errorf("contact request for %s of %s: %w", reference, agencyID, ErrNotFound)
	}
	if m.requests[record.ID] != nil {
		return "", fmt.Errorf("contact request %s already exists", record.ID)
	}
	now := m.options.Now()
	if record.ID == "" {
		record.ID = m.newID()
	}
	if record.CreatedAt.IsZero() {
		record.CreatedAt = now
	}
	if record.VisibleFrom.Before(now) {
		record.VisibleFrom = now
	}
	record.CreatedAt, record.VisibleFrom = wall(record.CreatedAt), wall(record.VisibleFrom)
	c := &contactRequest{owner: i, sequence: m.next(), ContactRequestTruth: ContactRequestTruth{
		AgencyID: agencyID, Reference: reference, ID: record.ID, CreatedAt: record.CreatedAt,
		VisibleFrom: record.VisibleFrom,
	}}
	if err := revise(&c.Versions, record, now); err != nil {
		return "", err
	}
	m.requests[c.ID] = c
	i.contactRequests = append(i.contactRequests, c)
	slices.SortFunc(i.contactRequests, byCreation)
	return c.ID, nil
}

// EditContactRequest changes a contact request in place: its status, its score, anything but its id
// and its visibility. Nothing changed, nothing happened. The function must not call the model.
func (m *Model) EditContactRequest(id string, change func(*ContactRequest)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.requests[id]
	if c == nil {
		return fmt.Errorf("edit contact request %s: %w", id, ErrNotFound)
	}
	before := newest(c.Versions).Record
	after := before.clone()
	change(&after)
	after.ID, after.VisibleFrom = before.ID, before.VisibleFrom
	if reflect.DeepEqual(before, after) {
		return nil
	}
	if err := revise(&c.Versions, after, m.options.Now()); err != nil {
		return err
	}
	c.CreatedAt = after.CreatedAt
	slices.SortFunc(c.owner.contactRequests, byCreation)
	return nil
}

// Redact erases the person from a contact request: the record stays, its personal fields are null
// in every response from now on.
func (m *Model) Redact(id string) error {
	return m.EditContactRequest(id, func(c *ContactRequest) {
		c.Redacted = true
		c.Salutation, c.FirstName, c.LastName = "", "", ""
		c.Email, c.Phone, c.Language, c.Message = "", "", "", ""
	})
}

// byCreation keeps those of one moment in the order of their adding.
func byCreation(x, y *contactRequest) int {
	return cmp.Or(x.CreatedAt.Compare(y.CreatedAt), cmp.Compare(x.sequence, y.sequence))
}

func compareScores(x, y *contactRequest) int {
	return cmp.Or(cmp.Compare(newest(x.Versions).Record.Score, newest(y.Versions).Record.Score),
		byCreation(x, y))
}

// versionAt is the newest version that had begun, or the first.
func (c *contactRequest) versionAt(t time.Time) Version[ContactRequest] {
	for _, v := range slices.Backward(c.Versions) {
		if !v.From.After(t) {
			return v
		}
	}
	return c.Versions[0]
}
