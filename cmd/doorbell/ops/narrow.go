package ops

import (
	"fmt"
	"slices"
	"strings"

	"doorbell/poller"
)

// of is the status as far as it is about one agency, or about nobody in particular.
func (s Status) of(agencyID string) (Status, error) {
	known := slices.ContainsFunc(s.Watch.Agencies, func(a poller.AgencyStatus) bool { return a.AgencyID == agencyID })
	if !known {
		return Status{}, fmt.Errorf("%w: it is not watched", poller.ErrUnknownAgency)
	}
	s.Watch.Agencies = only(s.Watch.Agencies, func(a poller.AgencyStatus) bool { return a.AgencyID == agencyID })
	s.Relay = only(s.Relay, func(r RelayStatus) bool { return r.AgencyID == agencyID })
	s.Hours = only(s.Hours, func(h AgencyHours) bool { return h.AgencyID == agencyID })
	return s, nil
}

// only is a copy with what is wanted.
func only[T any](list []T, wanted func(T) bool) (kept []T) {
	for _, one := range list {
		if wanted(one) {
			kept = append(kept, one)
		}
	}
	return kept
}

// without leaves out parts that are large: hours, freshness.
func (s Status) without(parts string) Status {
	if strings.Contains(parts, "hours") {
		s.Hours = nil
	}
	if strings.Contains(parts, "freshness") {
		s.Watch.Agencies = slices.Clone(s.Watch.Agencies)
		for n := range s.Watch.Agencies {
			s.Watch.Agencies[n].Freshness = nil
		}
	}
	return s
}
