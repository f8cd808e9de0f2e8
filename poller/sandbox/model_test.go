package sandbox

import (
	"errors"
	"reflect"
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
	if got := listed(t, h, "A100", "").references(); !slices.Equal(got, []string{"r"}) {
		t.Errorf("%v is listed after an edit", got)
	}
	c.advance(time.Hour)
	must(t, m.Withdraw("A100", "r"))
	if got := listed(t, h, "A100", "").references(); len(got) != 0 {
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
		if want := []time.Time{at(0), at(1), at(3)}[n]; v.From != want || v.Record.UpdatedAt != want {
			t.Errorf("version %d from %v, updated %v", n, v.From, v.Record.UpdatedAt)
		}
	}
	if !slices.Equal(got, []string{"STANDARD", "TOP", "TOP"}) {
		t.Errorf("versions %v", got)
	}
	if first, last := i.Versions[0].Record, i.Versions[2].Record; first.ID == 0 || first.ID != last.ID || last.CreatedAt != at(3) {
		t.Errorf("ids %d and %d, created again at %v", first.ID, last.ID, last.CreatedAt)
	}
}

func TestPublishingWhatIsVisibleReplacesItsRecord(t *testing.T) {
	m := newModel(Options{})
	must(t, m.Publish("A100", Insertion{Reference: "r", RankType: "TOP", AvailableFrom: "2027-01-01"}))
	must(t, m.Publish("A100", Insertion{Reference: "r", RankType: "PREMIUM"}))
	p := listed(t, New(m, Flat()), "A100", "")
	if len(p.Results) != 1 || p.Results[0]["rankType"] != "PREMIUM" || p.Results[0]["availableFrom"] != nil {
		t.Errorf("%v", p.Results)
	}
	if i, _ := m.Truth().Insertion("A100", "r"); len(i.Visible) != 1 || len(i.Versions) != 2 {
		t.Errorf("%d intervals, %d versions", len(i.Visible), len(i.Versions))
	}
}

func TestContactRequestsComeBackWithTheirReference(t *testing.T) {
	m := newModel(Options{})
	h := New(m, Flat())
	publish(t, m, "A100", "r")
	old := add(t, m, "A100", "r", ContactRequest{CreatedAt: time.Now().Add(-time.Hour)})
	must(t, m.Withdraw("A100", "r"))
	late := add(t, m, "A100", "r", ContactRequest{})
	publish(t, m, "A100", "r")
	if got := ids(t, h, "r", ""); !slices.Equal(got, []string{late, old}) {
		t.Errorf("%v, want the new and the old one", got)
	}
}

func TestALateContactRequestIsHiddenUntilItsTime(t *testing.T) {
	c := newClock()
	m := newModel(Options{Now: c.now})
	h := New(m, Nested())
	publish(t, m, "A100", "r")
	add(t, m, "A100", "r", ContactRequest{CreatedAt: c.t.Add(-time.Minute)})
	id := add(t, m, "A100", "r", ContactRequest{CreatedAt: c.t.Add(-2 * time.Minute), VisibleFrom: c.t.Add(time.Minute)})
	total := func() float64 {
		return decoded[map[string]any](t, ask(h, testKey, contactRequestsPath("r")))["totalNumberOfItems"].(float64)
	}
	c.advance(time.Minute - 1)
	if total() != 1 {
		t.Error("shown too early")
	}
	c.advance(1)
	if total() != 2 {
		t.Error("not shown in time")
	}
	if got, _ := m.Truth().ContactRequest(id); got.VisibleFrom != c.t || got.Served != 1 {
		t.Errorf("%+v", got)
	}
}

func TestNothingIsVisibleBeforeItWasAdded(t *testing.T) {
	c := newClock()
	m := newModel(Options{Now: c.now})
	publish(t, m, "A100", "r")
	id := add(t, m, "A100", "r", ContactRequest{CreatedAt: c.t.Add(-time.Hour), VisibleFrom: c.t.Add(-time.Hour)})
	if got, _ := m.Truth().ContactRequest(id); got.VisibleFrom != c.t || got.CreatedAt != c.t.Add(-time.Hour) {
		t.Errorf("%+v", got)
	}
}

func TestAnEditedContactRequestIsANewVersionOfTheSame(t *testing.T) {
	m := newModel(Options{})
	h := New(m, Flat())
	publish(t, m, "A100", "r")
	id := add(t, m, "A100", "r", ContactRequest{Score: 1, Status: "NEW"})
	ids(t, h, "r", "")
	must(t, m.EditContactRequest(id, func(c *ContactRequest) { c.Status, c.ID = "READ", "not to be changed" }))
	must(t, m.EditContactRequest(id, func(*ContactRequest) {}))
	for range 2 {
		got := decoded[[]map[string]any](t, ask(h, testKey, contactRequestsPath("r")))
		if got[0]["status"] != "READ" || got[0]["id"] != id {
			t.Errorf("%v", got)
		}
	}
	c, _ := m.Truth().ContactRequest(id)
	if len(c.Versions) != 2 || c.Versions[0].Record.Status != "NEW" || c.Versions[1].Record.Status != "READ" || c.Served != 3 {
		t.Errorf("%+v", c)
	}
}

func TestAscendingIsTheReverseOfDescendingAlsoAmongEquals(t *testing.T) {
	m := newModel(Options{Now: newClock().now})
	h := New(m, Flat())
	publish(t, m, "A100", "r")
	for range 10 {
		add(t, m, "A100", "r", ContactRequest{Score: 5})
	}
	for _, key := range []string{"createdAt", "score"} {
		down, up := ids(t, h, "r", "sortBy="+key), ids(t, h, "r", "sortOrder=asc&sortBy="+key)
		slices.Reverse(up)
		if !slices.Equal(down, up) {
			t.Errorf("%s: %v and reversed %v", key, down, up)
		}
	}
}

func TestAChangeOfSomethingThatIsNotThereIsAnError(t *testing.T) {
	m := newModel(Options{})
	publish(t, m, "A100", "r", "gone")
	must(t, m.Withdraw("A100", "gone"))
	add(t, m, "A100", "r", ContactRequest{ID: "taken"})
	_, addUnknown := m.AddContactRequest("B200", "r", ContactRequest{})
	_, addTwice := m.AddContactRequest("A100", "r", ContactRequest{ID: "taken"})
	if without := m.Publish("A100", Insertion{}); without == nil || addTwice == nil {
		t.Errorf("%v without a reference, %v with a taken id", without, addTwice)
	}
	before := m.Truth()
	for name, c := range map[string]struct{ got, want error }{
		"publish in an unknown agency":      {m.Publish("Z999", Insertion{Reference: "r"}), ErrNotFound},
		"publish what is not JSON":          {m.Publish("A100", Insertion{Reference: "new", Extra: rawMembers("{")}), errNotJSON},
		"edit unknown":                      {m.Edit("B200", "r", func(*Insertion) {}), ErrNotFound},
		"edit withdrawn":                    {m.Edit("A100", "gone", func(*Insertion) {}), ErrNotFound},
		"withdraw twice":                    {m.Withdraw("A100", "gone"), ErrNotFound},
		"contact request for another's":     {addUnknown, ErrNotFound},
		"edit an unknown contact request":   {m.EditContactRequest("?", func(*ContactRequest) {}), ErrNotFound},
		"redact an unknown contact request": {m.Redact("?"), ErrNotFound},
		"unlink an unknown key":             {m.UnlinkKey("?", "A100"), ErrNotFound},
		"deactivate an unknown key":         {m.DeactivateKey("?"), ErrNotFound},
		"an extra member that is not JSON":  {m.Edit("A100", "r", func(i *Insertion) { i.Extra = rawMembers("{") }), errNotJSON},
		"the same in a contact request":     {m.EditContactRequest("taken", func(c *ContactRequest) { c.Extra = rawMembers("nope") }), errNotJSON},
	} {
		if !errors.Is(c.got, c.want) {
			t.Errorf("%s: %v, want %v", name, c.got, c.want)
		}
	}
	if after := m.Truth(); !reflect.DeepEqual(before.Insertions, after.Insertions) || !reflect.DeepEqual(before.ContactRequests, after.ContactRequests) {
		t.Error("an error changed the model")
	}
}

func TestTheTruthOfAMomentDoesNotGoOn(t *testing.T) {
	m := newModel(Options{})
	must(t, m.Publish("A100", Insertion{Reference: "r", Extra: rawMembers("1")}))
	before := m.Truth().Insertions[0]
	must(t, m.Edit("A100", "r", func(i *Insertion) { i.Extra["x"] = []byte("2") }))
	must(t, m.Withdraw("A100", "r"))
	if len(before.Versions) != 1 || string(before.Versions[0].Record.Extra["x"]) != "1" || !before.Visible[0].Until.IsZero() {
		t.Errorf("%+v", before)
	}
}
