package sandbox

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"
)

// ContactRequest is an inquiry about an insertion. The JSON form is what
// [Control] takes; how an answer shows it is up to the [Rendering].
type ContactRequest struct {
	ID string `json:"id,omitempty"` // empty: given by the model
	// CreatedAt may lie in the past, for old and for late ones. Zero: now.
	CreatedAt time.Time `json:"createdAt,omitzero"`
	// VisibleFrom delays its appearance in answers. Before now: now.
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
	// Extra members stand beside the others in an answer.
	Extra map[string]json.RawMessage `json:"extra,omitempty"`
}

func (c ContactRequest) clone() ContactRequest {
	c.ViewingTimes = slices.Clone(c.ViewingTimes)
	c.Extra = maps.Clone(c.Extra)
	return c
}

type contactRequest struct {
	owner       *insertion
	id          string
	sequence    uint64
	visibleFrom time.Time
	redactedAt  time.Time
	versions    []*contactRequestVersion
}

type contactRequestVersion struct {
	from   time.Time
	record ContactRequest
	extra  object
	served Served
}

func (c *contactRequest) current() *contactRequestVersion { return c.versions[len(c.versions)-1] }

// AddContactRequest adds an inquiry to an insertion, visible or withdrawn, and
// returns its id. It appears in answers from the moment of this call on, or
// later if VisibleFrom says so, whatever CreatedAt is.
func (m *Model) AddContactRequest(agencyID, reference string, record ContactRequest) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := m.insertion(agencyID, reference)
	if i == nil {
		return "", fmt.Errorf("contact request for %s of %s: %w", reference, agencyID, ErrNotFound)
	}
	if m.requests[record.ID] != nil {
		return "", fmt.Errorf("contact request %s: %w", record.ID, ErrExists)
	}
	now := m.options.Now()
	if record.ID == "" {
		record.ID = m.newID()
	}
	if record.CreatedAt.IsZero() {
		record.CreatedAt = now
	}
	if record.VisibleFrom.IsZero() && m.lag != nil {
		record.VisibleFrom = now.Add(m.lag(record))
	}
	if record.VisibleFrom.Before(now) {
		record.VisibleFrom = now
	}
	record.CreatedAt, record.VisibleFrom = wall(record.CreatedAt), wall(record.VisibleFrom)
	c := &contactRequest{owner: i, id: record.ID, sequence: m.next(), visibleFrom: record.VisibleFrom}
	if err := c.revise(record, now); err != nil {
		return "", err
	}
	m.requests[c.id] = c
	i.contactRequests = append(i.contactRequests, c)
	i.sortContactRequests()
	return c.id, nil
}

// SetLag makes new contact requests that do not say so themselves visible so long
// after they are added. Late visibility hides nothing for good and breaks no
// answer: what is shown is served. A nil function ends it; the function must not
// call the model.
func (m *Model) SetLag(lag func(ContactRequest) time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.lag = lag
}

// EditContactRequest changes a contact request in place: its status, its score,
// anything but its id and its visibility. Nothing changed, nothing happened. The
// function must not call the model.
func (m *Model) EditContactRequest(id string, change func(*ContactRequest)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	c := m.requests[id]
	if c == nil {
		return fmt.Errorf("edit contact request %s: %w", id, ErrNotFound)
	}
	before := c.current().record
	after := before.clone()
	change(&after)
	after.ID, after.VisibleFrom = before.ID, before.VisibleFrom
	if reflect.DeepEqual(before, after) {
		return nil
	}
	now := m.options.Now()
	if err := c.revise(after, now); err != nil {
		return err
	}
	if after.Redacted && !before.Redacted {
		c.redactedAt = now
	}
	c.owner.sortContactRequests()
	return nil
}

// Redact erases the person from a contact request: the record stays, its
// personal fields are null in every answer from now on.
func (m *Model) Redact(id string) error {
	return m.EditContactRequest(id, func(c *ContactRequest) {
		c.Redacted = true
		c.Salutation, c.FirstName, c.LastName = "", "", ""
		c.Email, c.Phone, c.Language, c.Message = "", "", "", ""
	})
}

func (c *contactRequest) revise(record ContactRequest, now time.Time) error {
	record = record.clone()
	extra, err := treeOf(record.Extra)
	if err != nil {
		return fmt.Errorf("contact request %s: %w", c.id, err)
	}
	c.versions = append(c.versions, &contactRequestVersion{from: now, record: record, extra: extra})
	return nil
}

// sortContactRequests keeps those of one moment in the order of their adding.
func (i *insertion) sortContactRequests() {
	slices.SortStableFunc(i.contactRequests, byCreation)
}

func byCreation(x, y *contactRequest) int {
	return cmp.Or(
		x.current().record.CreatedAt.Compare(y.current().record.CreatedAt),
		cmp.Compare(x.sequence, y.sequence))
}

func byScore(x, y *contactRequest) int {
	return cmp.Or(cmp.Compare(x.current().record.Score, y.current().record.Score), byCreation(x, y))
}

// visibleContactRequests returns them in the order asked for, unless there is one
// for all. Descending is the exact reverse of ascending.
func (i *insertion) visibleContactRequests(s sight, q windowQuery, order Order) []*contactRequest {
	var visible []*contactRequest
	for _, c := range i.contactRequests {
		if !s.at.Before(c.visibleFrom) && !slices.Contains(s.without, c.id) {
			visible = append(visible, c)
		}
	}
	visible = visible[:len(visible)-min(s.newest, len(visible))]
	if order != "" {
		q.byScore, q.ascending = order == BestFirst, order == OldestFirst || order == ByID
	}
	switch {
	case order == ByID:
		slices.SortFunc(visible, func(x, y *contactRequest) int { return cmp.Compare(x.id, y.id) })
	case q.byScore:
		slices.SortFunc(visible, byScore)
	}
	if !q.ascending {
		slices.Reverse(visible)
	}
	return visible
}
