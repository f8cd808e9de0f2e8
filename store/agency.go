package store

import (
	"maps"
	"time"

	"doorbell/events"
)

// Agency is what is remembered of an agency as a whole.
type Agency struct {
	// WatchStart is the moment before the first request, in our clock. It never moves.
	WatchStart time.Time `json:"watchStart"`
	// HeardUntil is set where a store before this one watched the agency and was lost: contact
	// requests created since are live, for those before are in the stream. Zero: there was no such
	// store.
	HeardUntil time.Time `json:"heardUntil,omitzero"`
	// SetBack: the store was restored from a backup after the stream had gone on.
	SetBack bool `json:"setBack,omitempty"`
	// AwaitsStream: nothing is asked until the stream was read, which may hold what a store before
	// this one has published.
	AwaitsStream bool `json:"awaitsStream,omitempty"`
	// Filter is the API's own filter under which the insertions were read, as a query.
	Filter string `json:"filter,omitempty"`
	// Baselined: anything new from now on is announced.
	Baselined bool `json:"baselined,omitempty"`
	// Announced counts insertions announced while baselining.
	Announced int `json:"announced,omitempty"`
	// CompleteWalks counts complete walks; LastCompleteWalk is when the last of them began.
	CompleteWalks    int       `json:"completeWalks,omitempty"`
	LastCompleteWalk time.Time `json:"lastCompleteWalk,omitzero"`
	// PartialWalks counts partial walks in a row that brought nothing new.
	PartialWalks int `json:"partialWalks,omitempty"`

	// Volatile are members of records that change at each reading, and are left out of digests.
	Volatile []Volatile `json:"volatile,omitempty"`

	// BaselineReason says what the baseline under way, or the last one, was made for: filter_changed;
	// empty: it is the first. BaselineSince is when it began, if not at WatchStart.
	BaselineReason string    `json:"baselineReason,omitempty"`
	BaselineSince  time.Time `json:"baselineSince,omitzero"`

	// Held is a change too large to believe immediately; nil if there is none.
	Held *Held `json:"held,omitempty"`
	// Redaction is the same of people who vanished from contact requests.
	Redaction *Held `json:"redaction,omitempty"`

	// KeyUntil is when the key with the fingerprint KeyOf may be shown again: the API asked to
	// wait.
	KeyUntil time.Time `json:"keyUntil,omitzero"`
	KeyOf    string    `json:"keyOf,omitempty"`

	// Operations is what is remembered of each of the API's two operations, by their names in
	// events. Copies of an agency share it: only SetOperation changes it.
	Operations map[string]Operation `json:"operations,omitempty"`
}

// Operation is what is remembered of the responses of one operation of an agency.
type Operation struct {
	// Path is the JSON pointer to the list of records, once Located.
	Path    string `json:"path,omitempty"`
	Located bool   `json:"located,omitempty"`
	// Size is how many records are requested at first, where the API refused the usual number; 0:
	// it did not. A negative one: the API refuses every number.
	Size int `json:"size,omitempty"`
	// LastGood is the last good response that was written; there may have been younger ones.
	LastGood time.Time `json:"lastGood,omitzero"`
	// PartialWalks counts walks in a row that could not be complete.
	PartialWalks int `json:"partialWalks,omitempty"`
}

// Operation returns what is remembered of an operation.
func (a Agency) Operation(name string) Operation { return a.Operations[name] }

// SetOperation remembers an operation. It leaves copies of the agency alone.
func (a *Agency) SetOperation(name string, o Operation) {
	all := maps.Clone(a.Operations)
	if all == nil {
		all = map[string]Operation{}
	}
	all[name] = o
	a.Operations = all
}

// Volatile is a member of the records of an operation that changes at each reading.
type Volatile struct {
	Operation string    `json:"operation"`
	Path      string    `json:"path"`    // JSON pointer into the record
	Changed   time.Time `json:"changed"` // when it was last seen to change, to the hour
}

// Held is a change that waits to be believed.
type Held struct {
	Reason  string    `json:"reason"`
	Since   time.Time `json:"since"`
	Until   time.Time `json:"until"`
	Missing int       `json:"missing"`
	Known   int       `json:"known"`
	// Approved: a person has said that it is true.
	Approved bool `json:"approved,omitempty"`
	// Insertions are those whose contact requests it is about; empty where it is about insertions
	// themselves.
	Insertions []string `json:"insertions,omitempty"`
}

// Agency returns what is remembered of an agency, and whether anything is.
func (tx *Tx) Agency(id string) (a Agency, exists bool) {
	return getJSON[Agency](tx, bucketAgencies, []byte(id))
}

// PutAgency remembers an agency.
func (tx *Tx) PutAgency(id string, a Agency) error {
	if tx.store.onUrgent.Load() != nil {
		before, _ := tx.Agency(id)
		tx.urgent = tx.urgent || isUrgent(before, a)
	}
	return tx.putJSON(bucketAgencies, []byte(id), a)
}

// Agencies lists the agencies that the store knows, in order; also those that are no longer
// configured.
func (s *Store) Agencies() ([]string, error) { return read(s, (*Tx).agencies) }

// agencies is a list because a bucket must not change while it is read.
func (tx *Tx) agencies() (all []string) {
	for id := range tx.ascend(bucketAgencies, nil, nil) {
		all = append(all, string(id))
	}
	return all
}

// Halt is a scope that is not asked for any more.
type Halt struct {
	Scope events.Scope `json:"scope"`
	// where Scope is one insertion
	Reference string    `json:"propertyReferenceId,omitempty"`
	Operation string    `json:"operation"`
	Status    int       `json:"status"`
	Since     time.Time `json:"since"`
	Tried     time.Time `json:"tried"` // the last request, which was refused
	// fingerprint of the refused key; another key ends the halt
	Key            string `json:"key"`
	ProbableReason string `json:"probableReason"`
	Advice         string `json:"advice"`
	// kind of the body of the refusal, in the words of access.halted
	Body string `json:"body,omitempty"`
	// Silent: one insertion was refused, and whether that is announced is not decided yet.
	Silent bool `json:"silent,omitempty"`
}

// Halts returns the halts of an agency.
func (tx *Tx) Halts(agency string) (all []Halt) {
	for _, v := range tx.ascend(bucketHalts, prefix(agency), prefix(agency)) {
		all = append(all, decodeJSON[Halt](bucketHalts, v))
	}
	return all
}

// PutHalt remembers a halt.
func (tx *Tx) PutHalt(agency string, h Halt) error {
	tx.urgent = true
	return tx.putJSON(bucketHalts, haltKey(agency, h), h)
}

// DeleteHalt forgets a halt.
func (tx *Tx) DeleteHalt(agency string, h Halt) error {
	tx.urgent = true
	return tx.delete(bucketHalts, haltKey(agency, h))
}

func haltKey(agency string, h Halt) []byte { return key(agency, string(h.Scope), h.Reference) }

// AlarmID names an alarm of an agency; there is one of each.
type AlarmID struct {
	Kind      string `json:"kind"`
	Operation string `json:"operation"`
	// of the insertion that it is about; empty: the whole operation
	Reference string `json:"propertyReferenceId,omitempty"`
}

// Alarm is a state that one event began and another one ends.
type Alarm struct {
	AlarmID
	Since time.Time `json:"since"`
	// the reference that shows it, of one about the whole operation
	Example string `json:"example,omitempty"`
}

func (a AlarmID) key(agency string) []byte { return key(agency, a.Kind, a.Operation, a.Reference) }

// Alarms returns the alarms of an agency that are on.
func (tx *Tx) Alarms(agency string) (all []Alarm) {
	for _, v := range tx.ascend(bucketAlarms, prefix(agency), prefix(agency)) {
		all = append(all, decodeJSON[Alarm](bucketAlarms, v))
	}
	return all
}

// PutAlarm remembers an alarm of an agency.
func (tx *Tx) PutAlarm(agency string, a Alarm) error {
	return tx.putJSON(bucketAlarms, a.key(agency), a)
}

// DeleteAlarm forgets an alarm that has ended.
func (tx *Tx) DeleteAlarm(agency string, a AlarmID) error {
	return tx.delete(bucketAlarms, a.key(agency))
}
