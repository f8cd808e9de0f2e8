package sandbox

import (
	"slices"
	"testing"
	"time"
)

func TestTheTruthKnowsWhenAnInsertionWasVisibleAndWithWhichRecord(t *testing.T) {
	c := newClock()
	start := c.t
	m := newModel(Options{Now: c.now})
	h := New(m, Flat())
	must(t, m.Publish("A100", Insertion{Reference: "r", RankType: "STANDARD"}))
	c.advance(time.Hour)
	must(t, m.Edit("A100", "r", func(i *Insertion) { i.RankType = "TOP"; i.Reference = "not to be changed" }))
	must(t, m.Edit("A100", "r", func(i *Insertion) { i.RankType = "TOP" })) // changes nothing
	if got := listed(h, "A100", ""); !slices.Equal(got, []string{"r"}) {
		t.Errorf("%v is listed after an edit", got)
	}
	c.advance(time.Hour)
	must(t, m.Withdraw("A100", "r"))
	if got := listed(h, "A100", ""); len(got) != 0 {
		t.Errorf("%v is still listed", got)
	}
	c.advance(time.Hour)
	must(t, m.Publish("A100", Insertion{Reference: "r", RankType: "TOP"}))

	i, ok := m.Truth().Insertion("A100", "r")
	at := func(hours int) time.Time { return start.Add(time.Duration(hours) * time.Hour) }
	if want := []Interval{{at(0), at(2)}, {From: at(3)}}; !ok || !slices.Equal(i.Visible, want) {
		t.Errorf("visible %v, want %v", i.Visible, want)
	}
	for hours, want := range map[int]bool{-1: false, 0: true, 1: true, 2: false, 3: true, 99: true} {
		if i.VisibleAt(at(hours)) != want {
			t.Errorf("after %d hours visible: %v", hours, !want)
		}
	}
	var got []string
	for n, v := range i.Versions {
		got = append(got, v.Record.RankType)
		if want := []time.Time{at(0), at(1), at(3)}[n]; v.From != want {
			t.Errorf("version %d from %v", n, v.From)
		}
	}
	if !slices.Equal(got, []string{"STANDARD", "TOP", "TOP"}) {
		t.Errorf("versions %v", got)
	}
	if first, last := i.Versions[0].Record, i.Versions[2].Record; first.ID == 0 || first.ID != last.ID || last.CreatedAt != at(3) {
		t.Errorf("ids %d and %d, created again at %v", first.ID, last.ID, last.CreatedAt)
	}
}
