package forward

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"doorbell/events"

	"pgregory.net/rapid"
)

// numbered is an event as far as a checkpoint looks at it.
func numbered(sequence uint64, at time.Time, id string) events.Event {
	return events.Event{ID: id, Sequence: sequence, RecordedTime: at.UTC().Truncate(time.Millisecond)}
}

// history draws what a log can hold of an agency: positions with gaps, times that never go back; and now and then a backup that uses positions
// again, from the beginning or from further on, always later than everything before.
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
		sequence += uint64(rapid.IntRange(1, 3).Draw(t, "others")) // those between are of other agencies
		all = append(all, numbered(sequence, at, fmt.Sprintf("id-%d-%d", len(all), sequence)))
	}
	return all
}

func TestACheckpointTakesNothingForDoneThatIsNot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c checkpoint
		var skipped []events.Event
		for _, e := range history(t) {
			if c.has(e) {
				t.Fatalf("event %d of %s is taken for done", e.Sequence, e.RecordedTime)
			}
			// One that is passed over now comes later, as a halt behind one that was sent before its turn.
			if len(skipped) < 5 && rapid.IntRange(0, 10).Draw(t, "skip") == 0 {
				skipped = append(skipped, e)
				continue
			}
			c.add(e)
			if len(skipped) > 0 && rapid.IntRange(0, 5).Draw(t, "now") == 0 {
				if c.has(skipped[0]) && len(c.Recent) < recent {
					t.Fatalf("event %d is taken for done", skipped[0].Sequence)
				}
				c.add(skipped[0])
				skipped = skipped[1:]
			}
		}
	})
}

func TestACheckpointKnowsAllThatIsDone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c checkpoint
		all, anews := history(t), 0
		for n, e := range all {
			if n > 0 && e.Sequence <= all[n-1].Sequence {
				anews++
			}
			if anews >= mostBounds {
				return // it may forget the oldest
			}
			c.add(e)
			text, err := json.Marshal(c)
			if err != nil {
				t.Fatal(err)
			}
			c = checkpoint{}
			if err := json.Unmarshal(text, &c); err != nil {
				t.Fatal(err)
			}
			for _, done := range all[:n+1] {
				if !c.has(done) {
					t.Fatalf("event %d of %d is forgotten", done.Sequence, n+1)
				}
			}
		}
		if len(c.Recent) > recent || len(c.Below) > mostBounds {
			t.Fatal("it grows")
		}
	})
}

func TestAClockThatGoesBackMakesNothingDone(t *testing.T) {
	var c checkpoint
	at := time.UnixMilli(1_700_000_000_000)
	for n := range uint64(100) {
		e := numbered(n+1, at.Add(-time.Duration(n)*time.Minute), fmt.Sprint(n))
		if c.has(e) {
			t.Fatal(n)
		}
		c.add(e)
	}
}
