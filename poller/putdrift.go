package poller

import (
	"time"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/poller/watch"
	"doorbell/store"
)

// putDrift remembers a drift, and says it if it was never told, in the transaction of the records that showed it.
func putDrift(tx *store.Tx, agencyID string, operation listings.Operation, d watch.Drift, at time.Time) error {
	if d.Remains == nil {
		return nil
	}
	state, _, err := tx.Agency(agencyID)
	if err != nil {
		return err
	}
	o := state.Operation(string(operation))
	o.Drifts = d.Remains
	state.SetOperation(string(operation), o)
	if err := tx.PutAgency(agencyID, state); err != nil || len(d.Told) == 0 {
		return err
	}
	expected, found := watch.DescribeForms(d.Told)
	return appendEvent(tx, &events.WatchSchemaDrifted{
		Common: events.Common{AgencyID: agencyID, ObservedAt: at}, Operation: string(operation), Expected: expected, Found: found,
	})
}

// tellFields remembers a drift of fields and says it, in the transaction of the contact requests that showed it.
func (p *poll) tellFields(tx *store.Tx, state *store.Agency, d watch.ContactsDiff, at time.Time) error {
	if d.Fields == state.FieldsVersion {
		return nil
	}
	state.FieldsVersion = d.Fields
	if err := tx.PutAgency(p.a.id, *state); err != nil {
		return err
	}
	if err := putDrift(tx, p.a.id, listings.OperationContactRequests, d.Drift, at); err != nil {
		return err
	}
	var err error
	*state, _, err = tx.Agency(p.a.id)
	return err
}
