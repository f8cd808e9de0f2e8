package sandbox

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"
)

// Insertion is the record of a published property. Everything but the reference
// may be left out; zero values do not appear in answers. The JSON form is the
// one of the API's record, so that [Control] takes records as they are.
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
	CreatedAt       time.Time       `json:"createdAt,omitzero"`      // zero: the moment of publication
	UpdatedAt       time.Time       `json:"updatedAt,omitzero"`      // set by the model; shown if the rendering says so
	// Extra members stand beside the others in an answer.
	Extra map[string]json.RawMessage `json:"extra,omitempty"`
}

// Address of a property.
type Address struct {
	Street     string `json:"street,omitempty"`
	PostalCode string `json:"postalCode,omitempty"`
	Locality   string `json:"locality,omitempty"`
	Region     string `json:"region,omitempty"`
	Country    string `json:"country,omitempty"`
	Geo        Geo    `json:"geoCoordinates,omitzero"`
}

// Geo is where on earth a property is, in degrees.
type Geo struct {
	Latitude  float64 `json:"latitude"`
	Longitude float64 `json:"longitude"`
}

// Characteristics of a property.
type Characteristics struct {
	NumberOfRooms float64 `json:"numberOfRooms,omitzero"`
	LivingSpace   int     `json:"livingSpace,omitzero"` // square metres
	Floor         int     `json:"floor,omitzero"`
	YearBuilt     int     `json:"yearBuilt,omitzero"`
	HasBalcony    bool    `json:"hasBalcony,omitzero"`
	HasElevator   bool    `json:"hasElevator,omitzero"`
}

// Prices of a property, in whole units of the currency.
type Prices struct {
	Currency string `json:"currency,omitempty"`
	Rent     Rent   `json:"rent,omitzero"`
	Buy      Buy    `json:"buy,omitzero"`
}

// Rent is what a tenant pays per interval.
type Rent struct {
	Net      int    `json:"net,omitzero"`
	Extra    int    `json:"extra,omitzero"`
	Gross    int    `json:"gross,omitzero"`
	Interval string `json:"interval,omitempty"`
}

// Buy is what a buyer pays.
type Buy struct {
	Price int `json:"price,omitzero"`
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
	Text Text `json:"text,omitzero"`
}

// Text is a title and a description.
type Text struct {
	Title       string `json:"title,omitempty"`
	Description string `json:"description,omitempty"`
}

func (i Insertion) clone() Insertion {
	i.Extra = maps.Clone(i.Extra)
	return i
}

// insertion is a reference of one agency with its whole past. Contact requests
// belong to the reference: published again, it has the old ones back.
type insertion struct {
	agencyID        string
	reference       string
	listed          bool
	visible         []Interval
	versions        []*insertionVersion
	contactRequests []*contactRequest // ascending by creation time
}

type insertionVersion struct {
	from   time.Time
	record Insertion
	tree   object // the record as JSON, made once; never changed
	served Served
}

func (i *insertion) current() *insertionVersion { return i.versions[len(i.versions)-1] }

// Publish makes an insertion visible. A reference that was withdrawn comes back
// with its contact requests and the id it had; one that is visible gets the new
// record in place of the old.
func (m *Model) Publish(agencyID string, record Insertion) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if record.Reference == "" {
		return fmt.Errorf("publish in %s: %w", agencyID, ErrInvalid)
	}
	a := m.agencies[agencyID]
	if a == nil {
		return fmt.Errorf("publish in agency %s: %w", agencyID, ErrNotFound)
	}
	i := m.insertion(agencyID, record.Reference)
	if i == nil {
		i = &insertion{agencyID: agencyID, reference: record.Reference}
		m.remember(a, i)
	}
	now := m.options.Now()
	m.complete(i, &record, now)
	if err := i.revise(record, now); err != nil {
		return err
	}
	if !i.listed {
		i.listed = true
		i.visible = append(i.visible, Interval{From: now})
		a.listed = append(a.listed, i)
	}
	return nil
}

// complete fills in what the agency left to the platform. The lock is held.
func (m *Model) complete(i *insertion, record *Insertion, now time.Time) {
	if record.ID == 0 && len(i.versions) > 0 {
		record.ID = i.current().record.ID
	}
	if record.ID == 0 {
		record.ID = 4_001_000_000 + int64(m.next())
	}
	if record.CreatedAt.IsZero() {
		record.CreatedAt = now
	}
	record.CreatedAt = wall(record.CreatedAt)
}

// Edit changes the record of a visible insertion. The function may change
// everything but the reference and must not call the model; if it changes
// nothing, nothing happened.
func (m *Model) Edit(agencyID, reference string, change func(*Insertion)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := m.insertion(agencyID, reference)
	if i == nil || !i.listed {
		return fmt.Errorf("edit %s of %s: %w", reference, agencyID, ErrNotFound)
	}
	before := i.current().record
	after := before.clone()
	change(&after)
	after.Reference = reference
	if reflect.DeepEqual(before, after) {
		return nil
	}
	return i.revise(after, m.options.Now())
}

// Touch bumps updatedAt of a visible insertion and changes nothing else.
func (m *Model) Touch(agencyID, reference string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := m.insertion(agencyID, reference)
	if i == nil || !i.listed {
		return fmt.Errorf("touch %s of %s: %w", reference, agencyID, ErrNotFound)
	}
	return i.revise(i.current().record, m.options.Now())
}

func (i *insertion) revise(record Insertion, now time.Time) error {
	record = record.clone()
	record.UpdatedAt = now
	tree, err := insertionTree(record)
	if err != nil {
		return fmt.Errorf("record %s of %s: %w", i.reference, i.agencyID, err)
	}
	i.versions = append(i.versions, &insertionVersion{from: now, record: record, tree: tree})
	return nil
}

// Withdraw takes a visible insertion off the list. What is asked about its
// contact requests afterwards is decided by [Options].WithdrawnStatus.
func (m *Model) Withdraw(agencyID, reference string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := m.insertion(agencyID, reference)
	if i == nil || !i.listed {
		return fmt.Errorf("withdraw %s of %s: %w", reference, agencyID, ErrNotFound)
	}
	i.listed = false
	i.visible[len(i.visible)-1].Until = m.options.Now()
	a := m.agencies[agencyID]
	a.listed = slices.DeleteFunc(a.listed, func(x *insertion) bool { return x == i })
	return nil
}
