package poller_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/poller/sandbox"
)

// TestADefectIsThatOfItsRecordAlone shows records with every defect among good ones, and then mends them.
func TestADefectIsThatOfItsRecordAlone(t *testing.T) {
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
		begin := time.Now()
		var shown, mended atomic.Bool
		deep := strings.Repeat(`[`, 70) + strings.Repeat(`]`, 70)
		odd := []string{`"x":"\ud800"`, "\"x\":\"Gr\xfc\xdfe\"", `"x":1,"x":2`, `"x":` + deep}
		w.model.SetFault(func(c sandbox.Call) *sandbox.Fault {
			var records []string
			for n := range 9 {
				x := `"x":"good"`
				if n%2 == 1 && !mended.Load() {
					x = odd[n/2]
				}
				if n > 0 && !shown.Load() {
					break
				}
				if c.Operation == sandbox.OperationInsertions {
					records = append(records, fmt.Sprintf(`{"propertyReferenceId":"a#%d##",%s}`, n, x))
					continue
				}
				at := begin.Add(time.Duration(9-n) * time.Second).UTC().Format(time.RFC3339)
				if n == 8 && !mended.Load() {
					at = "yesterday"
				}
				records = append(records, fmt.Sprintf(`{"id":"c%d","createdAt":%q,"email":"nora%d@example.org",%s}`, n, at, n, x))
			}
			if c.Operation == sandbox.OperationContactRequests && c.Reference != "a#0##" {
				records = nil
			}
			return &sandbox.Fault{Body: []byte("[" + strings.Join(records, ",") + "]")}
		})
		w.start()
		w.pass(10 * time.Minute)
		n := len(w.log("A100"))
		shown.Store(true)
		w.pass(10 * time.Minute)
		w.restart()
		w.pass(10 * time.Minute)
		got := w.since("A100", n)
		defects := map[string]string{}
		for _, e := range got {
			if e.Type == events.TypeInsertionAppeared || e.Type == events.TypeContactRequestCreated {
				id, _ := e.body["contactRequestId"].(string)
				defects[e.Reference+" "+id] = fmt.Sprint(e.body["defects"])
			}
		}
		want := []string{"<nil>", "[invalid_utf8]", "<nil>", "[invalid_utf8]", "<nil>", "[duplicate_name]", "<nil>", "[too_deep]", "<nil>"}
		for n, d := range want {
			if key := fmt.Sprintf("a#%d## ", n); n > 0 && defects[key] != d {
				t.Errorf("insertion %d has defects %s, want %s", n, defects[key], d)
			}
			if n == 8 {
				d = "[unreadable_time]"
			}
			if key := fmt.Sprintf("a#0## c%d", n); n > 0 && defects[key] != d {
				t.Errorf("contact request %d has defects %s, want %s", n, defects[key], d)
			}
		}
		if c := count(got, events.TypeContactRequestCreated) + count(got, events.TypeInsertionAppeared); c != 16 {
			t.Errorf("%d of 16 were announced: %v", c, got)
		}
		if c := count(got, events.TypeContactRequestChanged) + count(got, events.TypeInsertionChanged); c != 0 {
			t.Errorf("%d changes of what never changed", c)
		}
		n = len(w.log("A100"))
		mended.Store(true)
		w.pass(10 * time.Minute)
		got = w.since("A100", n)
		if c, i := count(got, events.TypeContactRequestChanged), count(got, events.TypeInsertionChanged); c != 5 || i != 4 || len(got) != 9 {
			t.Errorf("mended: %v", got)
		}
	})
}
