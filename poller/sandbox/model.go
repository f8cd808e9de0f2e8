package sandbox

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

var (
	// ErrNotFound is returned when a change names an agency, a key, an insertion
	// or a contact request that the model does not hold.
	ErrNotFound = errors.New("not found")
	// ErrExists is returned when a contact request is added with an id that is
	// already taken.
	ErrExists = errors.New("already there")
	// ErrInvalid is returned when a change has no reference.
	ErrInvalid = errors.New("reference is empty")
)

// Options of a [Model]. The zero value is usable.
type Options struct {
	// Now is the clock of the API. It decides what is visible and is what the
	// Date header shows. Default time.Now, which is right in a synctest bubble.
	Now func() time.Time
	// Seed decides the ids that the model gives to contact requests. The same
	// seed and the same order of changes give the same ids.
	Seed uint64
	// WithdrawnStatus answers contact requests of a withdrawn insertion: 200
	// (default) serves them as before, 404 and 403 refuse.
	WithdrawnStatus int
	// UnknownStatus answers a reference that no agency ever published: 404
	// (default) or 403.
	UnknownStatus int
	// KeepLog is the number of requests that [Model.Log] remembers: 0 none,
	// negative all. Counters are always kept.
	KeepLog int
}

func (o Options) withDefaults() Options {
	clock := o.Now
	if clock == nil {
		clock = time.Now
	}
	o.Now = func() time.Time { return wall(clock()) }
	if o.WithdrawnStatus == 0 {
		o.WithdrawnStatus = http.StatusOK
	}
	if o.UnknownStatus == 0 {
		o.UnknownStatus = http.StatusNotFound
	}
	return o
}

// wall makes times comparable by ==, as they are after a trip through JSON.
func wall(t time.Time) time.Time { return t.Round(0).UTC() }

// Model is the world behind the API. All methods are safe for concurrent use;
// none blocks, so a model works inside a synctest bubble.
type Model struct {
	mu         sync.Mutex
	options    Options
	agencies   map[string]*agency
	keys       map[string]*key
	references map[string][]*insertion // ascending by agency id
	requests   map[string]*contactRequest
	sequence   uint64 // counts publications and contact requests
	fault      func(Call) *Fault
	lag        func(ContactRequest) time.Duration // nil: none
	ledger     ledger
}

type agency struct {
	id     string
	known  []*insertion // in order of first publication
	listed []*insertion // visible ones, in order of publication
}

type key struct {
	label    string
	agencies map[string]bool
	active   bool
}

// NewModel returns an empty model: no agency, no key.
func NewModel(o Options) *Model {
	o = o.withDefaults()
	return &Model{
		options:    o,
		agencies:   map[string]*agency{},
		keys:       map[string]*key{},
		references: map[string][]*insertion{},
		requests:   map[string]*contactRequest{},
		ledger:     newLedger(o.KeepLog),
	}
}

// SetWithdrawnStatus changes [Options].WithdrawnStatus from now on.
func (m *Model) SetWithdrawnStatus(status int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.options.WithdrawnStatus = status
}

// AddAgency makes an agency exist. Adding it again changes nothing.
func (m *Model) AddAgency(id string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.agencies[id] == nil {
		m.agencies[id] = &agency{id: id}
	}
}

// AddKey makes a key valid and links it to the agencies; it returns the label
// under which requests with this key are counted ("key-1", "key-2", … in order
// of adding). A key that was deactivated is valid again. The agencies need not
// exist: a link to one that does not is answered with 403.
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

// LinkKey authorises a key for further agencies.
func (m *Model) LinkKey(value string, agencies ...string) error {
	return m.changeKey("link", value, func(k *key) {
		for _, id := range agencies {
			k.agencies[id] = true
		}
	})
}

// UnlinkKey takes agencies away from a key, which is answered with 403 for them
// from now on.
func (m *Model) UnlinkKey(value string, agencies ...string) error {
	return m.changeKey("unlink", value, func(k *key) {
		for _, id := range agencies {
			delete(k.agencies, id)
		}
	})
}

// DeactivateKey ends a key, the last step of a rotation. Until then the old and
// the new key are both valid.
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

// insertion returns nil if the agency never published the reference. The lock
// is held.
func (m *Model) insertion(agencyID, reference string) *insertion {
	for _, i := range m.references[reference] {
		if i.agencyID == agencyID {
			return i
		}
	}
	return nil
}

// remember adds a new insertion to the index of references. The lock is held.
func (m *Model) remember(a *agency, i *insertion) {
	a.known = append(a.known, i)
	owners := append(m.references[i.reference], i)
	slices.SortFunc(owners, func(x, y *insertion) int { return strings.Compare(x.agencyID, y.agencyID) })
	m.references[i.reference] = owners
}

// next returns a number that was never given before. The lock is held.
func (m *Model) next() uint64 {
	m.sequence++
	return m.sequence
}

// newID has the form of a UUID and depends only on the seed and the number of
// changes before it. The lock is held.
func (m *Model) newID() string {
	var in [16]byte
	binary.BigEndian.PutUint64(in[:8], m.options.Seed)
	binary.BigEndian.PutUint64(in[8:], m.next())
	h := sha256.Sum256(in[:])
	h[6] = h[6]&0x0f | 0x40
	h[8] = h[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", h[0:4], h[4:6], h[6:8], h[8:10], h[10:16])
}
