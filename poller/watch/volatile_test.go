package watch

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"doorbell/poller/listings"
	"doorbell/store"
)

// readingsOf is what a response shows of n contact requests of which some members changed since the reading before.
func readingsOf(n, reading int, rotates ...string) (list []Reading) {
	for k := range n {
		leaves := map[string]uint64{"/name": uint64(k), "/status": 1, "/email": uint64(k), "/views": uint64(k)}
		for _, path := range rotates {
			leaves[path] = uint64(1000*reading + k)
		}
		r := Reading{ID: fmt.Sprint(k)}
		if len(rotates) > 0 {
			r.Leaves = leaves
		}
		list = append(list, r)
	}
	return list
}

func TestAMemberThatChangesAtEachReadingIsVolatileAfterTenChangesInFourReadings(t *testing.T) {
	for _, c := range []struct{ requests, after int }{{1, 11}, {3, 5}, {4, 4}, {100, 4}} {
		var v Volatility
		for reading := 1; ; reading++ {
			found := slices.Sorted(slices.Values(v.Observe("a#b##", readingsOf(c.requests, reading, "/email", "/views"), epoch)))
			if len(found) == 0 && reading <= c.after {
				continue
			}
			if reading != c.after || !slices.Equal(found, []string{"/email", "/views"}) {
				t.Errorf("%d contact requests: %v at reading %d, want both at %d", c.requests, found, reading, c.after)
			}
			break
		}
	}
}

func TestAMemberThatStandsStillOnceIsNotVolatile(t *testing.T) {
	var v Volatility
	for reading := 1; reading <= 30; reading++ {
		rotates := []string{"/views"}
		if reading%3 == 0 {
			rotates = nil // as it was
		}
		if found := v.Observe("a#b##", readingsOf(5, reading, rotates...), epoch); len(found) > 0 {
			t.Fatalf("%v at reading %d", found, reading)
		}
	}
}

func TestAMemberThatChangesInFewOfThoseThatChangeIsNotVolatile(t *testing.T) {
	var v Volatility
	for reading := 1; reading <= 30; reading++ {
		list := readingsOf(10, reading, "/views")
		for n := range list {
			if n >= 4 {
				list[n].Leaves["/views"] = 7
				list[n].Leaves["/email"] = uint64(reading % 2 * n * (reading / 2)) // now and then
			}
		}
		if found := v.Observe("a#b##", list, epoch); slices.Contains(found, "/views") {
			t.Fatalf("%v at reading %d: it changes in four of ten", found, reading)
		}
	}
}

func TestAWalkInWhichNothingRotatesBeginsTheCountAgain(t *testing.T) {
	var v Volatility
	for walk := 1; walk <= 12; walk++ {
		if walk%volatileWalks != 0 {
			v.ObservePage(nil, []string{"/views"})
		}
		if found := v.ObserveWalk(); len(found) > 0 {
			t.Fatalf("%v after walk %d", found, walk)
		}
	}
}

func TestMembersOfOneNameThatChangeInBothOperationsStayLeftOut(t *testing.T) {
	both := []listings.Operation{listings.OperationContactRequests, listings.OperationInsertions}
	var v Volatility
	var state store.Agency
	volatile := []string{"/views"}
	for hour := range 48 {
		o := Observation{AgencyID: "A100", At: epoch.Add(time.Duration(hour) * time.Hour)}
		left := map[string]uint64{"/views": uint64(hour)}
		page := []Listed{{Insertion: listings.Insertion{Reference: "a#b##"}, At: o.At, Left: left}}
		v.ObservePage(page, nil)
		v.Observe("a#b##", []Reading{{ID: "1", Left: left}}, o.At)
		for _, op := range both {
			if e := v.LeaveOut(state, o, op, volatile); e.State != nil {
				state = *e.State
			}
		}
		volatile = nil
		if len(state.Volatile) != len(both) {
			t.Fatalf("%+v after %d hours", state.Volatile, hour)
		}
	}
}

func TestAMemberIsLeftOutForADayAfterItsLastChangeNotAfterTheOneThatIsRemembered(t *testing.T) {
	const op = listings.OperationInsertions
	var v Volatility
	var state store.Agency
	volatile := []string{"/views"}
	for minute := 0; minute <= 55+24*60; minute += 5 {
		o := Observation{AgencyID: "A100", At: epoch.Add(time.Duration(minute) * time.Minute)}
		left := map[string]uint64{"/views": uint64(min(minute, 55))}
		v.ObservePage([]Listed{{Insertion: listings.Insertion{Reference: "a#b##"}, At: o.At, Left: left}}, nil)
		if e := v.LeaveOut(state, o, op, volatile); e.State != nil {
			state = *e.State
		}
		volatile = nil
		if isOut, want := len(state.Volatile) == 1, minute < 55+24*60; isOut != want {
			t.Fatalf("%d minutes after the last change: left out %t, want %t", minute-55, isOut, want)
		}
	}
}
