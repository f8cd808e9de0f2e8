package events

import (
	"encoding/hex"
	"encoding/json"
	"strconv"
	"time"
)

// InsertionSummary is what people want to know of an insertion at a glance; what the API did not say is absent.
// Numbers keep the text that the API sent.
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
	PropertyReferenceID string           `json:"propertyReferenceId"`
	Episode             int              `json:"episode"` // counts publications of the reference, from 1
	Insertion           InsertionSummary `json:"insertion"`
	Defects             []string         `json:"defects,omitempty"` // what is wrong with the record, in fixed words
	Record              json.RawMessage  `json:"record,omitempty"`
}

// InsertionChanged: the record of a published insertion differs from the last one.
type InsertionChanged struct {
	Common
	PropertyReferenceID string           `json:"propertyReferenceId"`
	Episode             int              `json:"episode"`
	Revision            int              `json:"revision"` // counts changes within the episode
	Changes             []Change         `json:"changes"`  // sorted by path; New applies CapChanges
	Insertion           InsertionSummary `json:"insertion"`
	Defects             []string         `json:"defects,omitempty"` // what is wrong with the record, in fixed words
	Record              json.RawMessage  `json:"record,omitempty"`
	Digest              [32]byte         `json:"-"` // of the new record; part of the id
}

// InsertionDisappeared: complete walks, repeatedly, no longer list the reference. Insertion and Record are the last known.
type InsertionDisappeared struct {
	Common
	PropertyReferenceID string           `json:"propertyReferenceId"`
	Episode             int              `json:"episode"`
	LastSeenAt          time.Time        `json:"lastSeenAt"`
	WalksWithout        int              `json:"walksWithout"`
	Insertion           InsertionSummary `json:"insertion"`
	Record              json.RawMessage  `json:"record,omitempty"`
}

// InsertionReappeared: a reference that had disappeared is published again, in a new episode. Changes are against the
// last known record; no separate InsertionChanged follows.
type InsertionReappeared struct {
	Common
	PropertyReferenceID string           `json:"propertyReferenceId"`
	Episode             int              `json:"episode"`
	DisappearedAt       time.Time        `json:"disappearedAt"`
	Changes             []Change         `json:"changes"`
	Insertion           InsertionSummary `json:"insertion"`
	Defects             []string         `json:"defects,omitempty"` // what is wrong with the record, in fixed words
	Record              json.RawMessage  `json:"record,omitempty"`
}

func (p *InsertionAppeared) settle() facts {
	return facts{
		kind: TypeInsertionAppeared, reference: p.PropertyReferenceID,
		identity: []string{strconv.Itoa(p.Episode)},
	}
}

func (p *InsertionChanged) settle() facts {
	p.Changes = p.capChanges(p.Changes)
	return facts{
		kind: TypeInsertionChanged, reference: p.PropertyReferenceID,
		identity: []string{strconv.Itoa(p.Episode), strconv.Itoa(p.Revision), hex.EncodeToString(p.Digest[:])},
	}
}

func (p *InsertionDisappeared) settle() facts {
	p.LastSeenAt = normal(p.LastSeenAt)
	return facts{
		kind: TypeInsertionDisappeared, reference: p.PropertyReferenceID,
		identity: []string{strconv.Itoa(p.Episode)},
	}
}

func (p *InsertionReappeared) settle() facts {
	p.DisappearedAt = normal(p.DisappearedAt)
	p.Changes = p.capChanges(p.Changes)
	return facts{
		kind: TypeInsertionReappeared, reference: p.PropertyReferenceID,
		identity: []string{strconv.Itoa(p.Episode)},
	}
}

func (c *Common) capChanges(changes []Change) []Change {
	capped, cut := CapChanges(changes)
	c.Truncated = c.Truncated || cut
	return capped
}

func (p *InsertionAppeared) write(w *writer) {
	w.ofInsertion(&p.Common, p.PropertyReferenceID)
	w.count("episode", p.Episode)
	p.Insertion.write(w)
	w.maybeTexts("defects", p.Defects)
	w.maybeRaw("record", p.Record)
}

func (p *InsertionChanged) write(w *writer) {
	w.ofInsertion(&p.Common, p.PropertyReferenceID)
	w.count("episode", p.Episode)
	w.count("revision", p.Revision)
	writeChanges(w, p.Changes)
	p.Insertion.write(w)
	w.maybeTexts("defects", p.Defects)
	w.maybeRaw("record", p.Record)
}

func (p *InsertionDisappeared) write(w *writer) {
	w.ofInsertion(&p.Common, p.PropertyReferenceID)
	w.count("episode", p.Episode)
	w.time("lastSeenAt", p.LastSeenAt)
	w.count("walksWithout", p.WalksWithout)
	p.Insertion.write(w)
	w.maybeRaw("record", p.Record)
}

func (p *InsertionReappeared) write(w *writer) {
	w.ofInsertion(&p.Common, p.PropertyReferenceID)
	w.count("episode", p.Episode)
	w.time("disappearedAt", p.DisappearedAt)
	writeChanges(w, p.Changes)
	p.Insertion.write(w)
	w.maybeTexts("defects", p.Defects)
	w.maybeRaw("record", p.Record)
}

func (s *InsertionSummary) write(w *writer) {
	w.open("insertion", '{')
	w.maybeText("title", s.Title)
	w.maybeText("street", s.Street)
	w.maybeText("postalCode", s.PostalCode)
	w.maybeText("locality", s.Locality)
	w.maybeText("offerType", s.OfferType)
	w.maybeText("rankType", s.RankType)
	w.maybeNumber("rooms", s.Rooms)
	w.maybeNumber("livingSpace", s.LivingSpace)
	if p := s.Price; p != nil {
		w.open("price", '{')
		w.maybeNumber("amount", p.Amount)
		w.maybeText("currency", p.Currency)
		w.maybeText("interval", p.Interval)
		w.close('}')
	}
	w.maybeText("url", s.URL)
	w.close('}')
}
