package ops

import (
	"cmp"
	"slices"

	"doorbell/poller"
)

// InOrder returns the agencies as people see them, on the page and in the terminal: what is halted first, then what else is ill,
// then what has just failed, then what begins, then the others; within each as they are configured.
func InOrder(agencies []poller.AgencyStatus) []poller.AgencyStatus {
	return slices.SortedStableFunc(slices.Values(agencies), func(x, y poller.AgencyStatus) int { return cmp.Compare(rank(x), rank(y)) })
}

// Ill says whether a person should look at an agency.
func Ill(a poller.AgencyStatus) bool {
	return len(a.Halts) > 0 || a.Held != nil || len(a.Alarms) > 0 || a.State == "backing_off"
}

func rank(a poller.AgencyStatus) int {
	switch {
	case a.State == "halted":
		return 0
	case Ill(a):
		return 1
	case a.LastError != "" || !a.LastWalk.Complete && a.LastWalk.Reason != "":
		return 2
	case a.State != "watching":
		return 3
	}
	return 4
}
