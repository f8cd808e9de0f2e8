package events

import (
	"encoding/json"
	"time"
)

// InsertionSummary is what people want to know of an insertion at a glance; what the API did not
// say is absent. Numbers keep the text that the API sent.
type InsertionSummary struct {
	Title       string      `json:"title,omitempty"`
	Street      string      `json:"street,omitempty"`
	PostalCode  string      `json:"postalCode,omitempty"`
	Locality    string      `json:"locality,omitempty"`
	OfferType   string      `json:"offerType,omitempty"`
	RankType    string      `json:"rankType,omitempty"`
	Rooms       json.Number `json:"rooms,omitempty"`
	LivingSpace json.Number `json:"livingSpace,omitempty"`
	Price       *Price      `json:"price,omitempty"`
	URL         string      `json:"url,omitempty"`
}

// Price is the gross rent, else the net rent, else the purchase price, which has no interval.
type Price struct {
	Amount   json.Number `json:"amount,omitempty"`
	Currency string      `json:"currency,omitempty"`
	Interval string      `json:"interval,omitempty"`
}

// InsertionAppeared: a reference was published that we had not seen before.
type InsertionAppeared struct {
	Common
	PropertyReferenceID string `json:"propertyReferenceId"`
	// counts publications of the reference, from 1
	Episode   int              `json:"episode"`
	Insertion InsertionSummary `json:"insertion"`
	// what is wrong with the record, in fixed words
	Defects []string        `json:"defects,omitempty"`
	Record  json.RawMessage `json:"record,omitempty"`
	Digest  [32]byte        `json:"-"` // of the record; part of the id
}

// InsertionChanged: the record of a published insertion differs from the last one.
type InsertionChanged struct {
	Common
	PropertyReferenceID string           `json:"propertyReferenceId"`
	Episode             int              `json:"episode"`
	Revision            int              `json:"revision"` // counts changes within the episode
	Changes             []Change         `json:"changes"`  // sorted by path; New applies capChanges
	Insertion           InsertionSummary `json:"insertion"`
	// what is wrong with the record, in fixed words
	Defects []string        `json:"defects,omitempty"`
	Record  json.RawMessage `json:"record,omitempty"`
	Digest  [32]byte        `json:"-"` // of the new record; part of the id
}

// InsertionDisappeared: complete walks, repeatedly, no longer list the reference. Insertion and
// Record are the last known.
type InsertionDisappeared struct {
	Common
	PropertyReferenceID string           `json:"propertyReferenceId"`
	Episode             int              `json:"episode"`
	LastSeenAt          time.Time        `json:"lastSeenAt"`
	WalksWithout        int              `json:"walksWithout"`
	Insertion           InsertionSummary `json:"insertion"`
	Record              json.RawMessage  `json:"record,omitempty"`
	Digest              [32]byte         `json:"-"` // of the record; part of the id
}

// InsertionReappeared: a reference that had disappeared is published again, in a new episode.
// Changes are against the last known record; no separate InsertionChanged follows.
type InsertionReappeared struct {
	Common
	PropertyReferenceID string           `json:"propertyReferenceId"`
	Episode             int              `json:"episode"`
	DisappearedAt       time.Time        `json:"disappearedAt"`
	Changes             []Change         `json:"changes"`
	Insertion           InsertionSummary `json:"insertion"`
	// what is wrong with the record, in fixed words
	Defects []string        `json:"defects,omitempty"`
	Record  json.RawMessage `json:"record,omitempty"`
	Digest  [32]byte        `json:"-"` // of the record; part of the id
}

func (p *InsertionAppeared) facts() facts {
	return identified(TypeInsertionAppeared, p.PropertyReferenceID, p.Episode, p.Digest)
}

func (p *InsertionChanged) facts() facts {
	return identified(TypeInsertionChanged, p.PropertyReferenceID, p.Episode, p.Revision, p.Digest)
}

func (p *InsertionDisappeared) facts() facts {
	return identified(TypeInsertionDisappeared, p.PropertyReferenceID, p.Episode, p.Digest)
}

func (p *InsertionReappeared) facts() facts {
	return identified(TypeInsertionReappeared, p.PropertyReferenceID, p.Episode, p.Digest)
}

// Change is one member of a record that differs. Path is an RFC 6901 pointer into the record; no
// Before means added, no After removed. An array is compared as a whole.
type Change struct {
	Path   string          `json:"path"`
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
}

// maxChanges is the most that changes may take of a payload before only their paths are reported
// alone.
const maxChanges = 64 << 10

// capChanges returns a copy of changes, without every before and after where they would take more
// than 64 KiB as JSON, and reports whether it left them out. Paths always stay.
func capChanges(changes []Change) (list []Change, cut bool) {
	size, list := 0, append([]Change{}, changes...)
	for _, c := range changes {
		size += len(`{"path":,"before":,"after":},`) + len(c.Path) + len(c.Before) + len(c.After)
	}
	if size <= maxChanges {
		return list, false
	}
	return withoutValues(list), true
}

// withoutValues leaves the paths of changes.
func withoutValues(list []Change) []Change {
	for i := range list {
		list[i] = Change{Path: list[i].Path}
	}
	return list
}
