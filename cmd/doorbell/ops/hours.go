package ops

import "time"

// AgencyHours is what the event log of an agency gained in each of the last 24 hours of the clock, the oldest first. The last
// one is the hour that runs.
type AgencyHours struct {
	AgencyID string `json:"agencyId"`
	Hours    []Hour `json:"hours"`
}

// Hour counts the events that were recorded in an hour of the clock, in UTC.
type Hour struct {
	At     time.Time `json:"at"`    // its beginning
	Leads  int       `json:"leads"` // contact_request.created that are news
	Events int       `json:"events"`
}
