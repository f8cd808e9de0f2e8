package poller

import (
	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/poller/watch"
)

// Refusal says why an agency was probably refused and what to do about it, as the watch would say it at its halt. others
// are the other agencies of the same key.
func Refusal(agencyID string, refused *listings.StatusError, others events.AgenciesOfKey) (reason, remedy string) {
	reason, _ = watch.Reason(events.ScopeAgency, events.Evidence{Body: string(refused.Body), OtherAgenciesOfKey: others}, others.Refused)
	return reason, watch.Advice(reason, agencyID, "")
}
