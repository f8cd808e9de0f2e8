package forward

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"doorbell/events"

	"pgregory.net/rapid"
)

// numbered is an event as far as a mark looks at it.
func numbered(sequence uint64, at time.Time, id string) events.Event {
	return events.Event{ID: id, Sequence: sequence, RecordedTime: at.UTC().Truncate(time.Millisecond)}
}

// history draws what an agency's log can be: sequences without gaps, times that never go back; and now and then a store that begins anew, or a
// backup that uses numbers again, always later than all that was before.
func history(t *rapid.T) (all []events.Event) {
	at, sequence := time.UnixMilli(1_700_000_000_000), uint64(0)
	for range rapid.IntRange(1, 200).Draw(t, "length") {
		switch rapid.IntRange(0, 40).Draw(t, "what") {
		case 0:
			sequence = 0
			at = at.Add(time.Millisecond)
		case 1:
			sequence -= min(sequence, uint64(rapid.IntRange(1, 50).Draw(t, "back")))
			at = at.Add(time.Millisecond)
		case 2:
			at = at.Add(time.Duration(rapid.IntRange(0, 5000).Draw(t, "ms")) * time.Millisecond)
		}
		sequence++
		all = append(all, numbered(sequence, at, fmt.Sprintf("id-%d-%d", len(all), sequence)))
	}
	return all
}

func TestAMarkTakesNothingForDoneThatIsNot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m mark
		var skipped []events.Event
		for _, e := range history(t) {
			if m.has(e) {
				t.Fatalf("event %d of %s is taken for done", e.Sequence, e.RecordedTime)
			}
			// One that is passed over now comes later, as a halt behind one that was sent before its turn.
			if len(skipped) < 5 && rapid.IntRange(0, 10).Draw(t, "skip") == 0 {
				skipped = append(skipped, e)
				continue
			}
			m.add(e)
			if len(skipped) > 0 && rapid.IntRange(0, 5).Draw(t, "now") == 0 {
				if m.has(skipped[0]) && len(m.Named) < named {
					t.Fatalf("event %d is taken for done", skipped[0].Sequence)
				}
				m.add(skipped[0])
				skipped = skipped[1:]
			}
		}
	})
}

func TestAMarkKnowsAllThatIsDone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m mark
		all, anews := history(t), 0
		for n, e := range all {
			if n > 0 && e.Sequence <= all[n-1].Sequence {
				anews++
			}
			if anews >= anew {
				return // it may forget the oldest
			}
			m.add(e)
			text, err := json.Marshal(m)
			if err != nil {
				t.Fatal(err)
			}
			m = mark{}
			if err := json.Unmarshal(text, &m); err != nil {
				t.Fatal(err)
			}
			for _, done := range all[:n+1] {
				if !m.has(done) {
					t.Fatalf("event %d of %d is forgotten", done.Sequence, n+1)
				}
			}
		}
		if len(m.Named) > named || len(m.Below) > anew {
			t.Fatal("it grows")
		}
	})
}

func TestAMarkThatJoinsAnotherKnowsWhatBothKnew(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := history(t)
		for n := 1; n < len(all); n++ {
			if all[n].Sequence <= all[n-1].Sequence {
				all = all[:n]
				break
			}
		}
		cut := rapid.IntRange(0, len(all)).Draw(t, "cut")
		var one, other mark
		for n, e := range all {
			if n < cut {
				one.add(e)
			} else {
				other.add(e)
			}
		}
		one.join(&other)
		for _, e := range all {
			if !one.has(e) {
				t.Fatalf("event %d is forgotten", e.Sequence)
			}
		}
		if next := numbered(all[len(all)-1].Sequence+1, all[len(all)-1].RecordedTime, "next"); one.has(next) {
			t.Fatal("what comes next is taken for done")
		}
	})
}

func TestAClockThatGoesBackMakesNothingDone(t *testing.T) {
	var m mark
	at := time.UnixMilli(1_700_000_000_000)
	for n := range uint64(100) {
		e := numbered(n+1, at.Add(-time.Duration(n)*time.Minute), fmt.Sprint(n))
		if m.has(e) {
			t.Fatal(n)
		}
		m.add(e)
	}
}
