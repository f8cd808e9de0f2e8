package poller_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/poller/sandbox"
)

func TestADriftQuotesNothingAndIsBounded(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		all := references(10)
		w.publish("A100", all...)
		w.start()
		w.pass(10 * time.Minute)
		n := len(w.log("A100"))
		extra := map[string]json.RawMessage{}
		for m := range 80 {
			extra[fmt.Sprintf("nora%d@example.org %s", m, strings.Repeat("x", 500))] = json.RawMessage(`"` + sandbox.Marker + `"`)
		}
		for _, r := range all {
			w.must(w.model.Edit("A100", r, func(i *sandbox.Insertion) { i.Extra = extra }))
		}
		w.pass(10 * time.Minute)
		got := w.since("A100", n)
		w.wants(got, events.TypeWatchSchemaDrifted)
		if text := string(got[0].Data); len(text) > 2000 || strings.Contains(text, "nora") || strings.Contains(text, sandbox.Marker) {
			t.Errorf("%d bytes: %.300s", len(text), text)
		}
	})
}

// TestADefectAffectsItsRecordAlone shows records with every defect among good ones, and then mends
// them.
func TestADefectAffectsItsRecordAlone(t *testing.T) {
	deep := `"x":` + strings.Repeat(`[`, 70) + strings.Repeat(`]`, 70)
	good := `"x":"good"`
	members := []string{good, `"x":"\ud800"`, "\"x\":\"Gr\xfc\xdfe\"", `"x":1,"x":2`, deep}
	defects := []string{"<nil>", "[invalid_utf8]", "[invalid_utf8]", "[duplicate_name]", "[too_deep]"}
	inField(t, flatsNamed(1), func(w *world, p *portal) {
		mended := false
		spoil := func(records []string) []string {
			for n, r := range records {
				x := members[n%5]
				if mended {
					x = good
				}
				records[n] = strings.TrimSuffix(r, "}") + "," + x + "}"
			}
			return records
		}
		p.list = func(_ int, records []string) fieldReply { return results(spoil(records), "") }
		p.respond = func(_ string, _ int, records []string) fieldReply { return results(spoil(records), "") }
		w.start()
		w.pass(10 * time.Minute)
		before := len(p.log())
		p.change(func() { p.flats = flatsNamed(9) })
		live := p.addMany(aFlat, 9, 0)
		slices.Reverse(live) // as they are shown
		p.change(func() { live[5].with = object{"createdAt": "yesterday"} })
		w.passTwice(10 * time.Minute)
		p.mustAnnounce(live...)
		got := map[string]string{}
		for _, e := range p.log() {
			if e.Type == events.TypeInsertionAppeared {
				got[e.Reference] = fmt.Sprint(e.body["defects"])
			}
		}
		for who, all := range p.created() {
			got[who] = fmt.Sprint(all[0].body["defects"])
		}
		for n, l := range live {
			want := defects[n%5]
			if got[p.flats[n]] != want && n > 0 {
				t.Errorf("insertion %d has defects %s, want %s", n, got[p.flats[n]], want)
			}
			if n == 5 {
				want = "[unreadable_time]"
			}
			if got[l.who] != want {
				t.Errorf("contact request %d has defects %s, want %s", n, got[l.who], want)
			}
		}
		if list := w.since("A100", before); len(list) != 8+9 {
			t.Errorf("%v", types(list))
		}
		before = len(p.log())
		p.change(func() { mended, live[5].with = true, nil })
		w.pass(10 * time.Minute)
		list := w.since("A100", before)
		if c, i := count(list, events.TypeContactRequestChanged), count(list, events.TypeInsertionChanged); c != 8 || i != 7 || len(list) != 15 {
			t.Errorf("mended: %v", types(list))
		}
	})
}
