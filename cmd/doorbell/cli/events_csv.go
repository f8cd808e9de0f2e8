package cli

import (
	"cmp"
	"encoding/json"
	"io"
	"strconv"
	"strings"
	"time"

	"doorbell/cmd/doorbell/ops"
	leads "doorbell/cmd/doorbell/report"
	"doorbell/events"
)

// csvOf returns a function that writes events as rows of a table for an office, with people's data.
func csvOf(w io.Writer) (func(ops.LoggedEvent) error, error) {
	c, err := leads.NewCSV(w, "recorded_utc", "created_utc", "agency", "type", "reference", "title", "street", "postal_code", "locality",
		"name", "email", "phone", "message", "score", "origin", "published", "ce_id", "ce_sequence")
	return func(e ops.LoggedEvent) error { return c.Row(cellsOf(e)...) }, err
}

func cellsOf(l ops.LoggedEvent) []string {
	e := l.Event
	var p struct {
		CreatedAt time.Time               `json:"createdAt"`
		Score     json.RawMessage         `json:"score"`
		Contact   events.Contact          `json:"contact"`
		Insertion events.InsertionSummary `json:"insertion"`
	}
	_ = json.Unmarshal(e.Data, &p) // what cannot be read stays empty
	person, i := p.Contact, p.Insertion
	name := cmp.Or(strings.TrimSpace(person.FirstName+" "+person.LastName), person.FullName)
	if person.Company != "" {
		name = strings.TrimPrefix(name+", "+person.Company, ", ")
	}
	score := strings.Trim(string(p.Score), `"`)
	if score == "null" {
		score = ""
	}
	published := "yes"
	if !l.Acknowledged {
		published = "no"
	}
	return []string{
		spreadsheetTime(e.RecordedTime), spreadsheetTime(p.CreatedAt), e.AgencyID, string(e.Type), e.Reference,
		i.Title, i.Street, i.PostalCode, i.Locality, name, person.Email, cmp.Or(person.Phone, person.PhoneRaw), person.Message,
		score, string(e.Origin), published, e.ID, strconv.FormatUint(e.Sequence, 10),
	}
}

// spreadsheetTime is a time as a spreadsheet recognises it; empty if it is unknown.
func spreadsheetTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.DateTime)
}
