package poller_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"doorbell/events"
	"doorbell/poller"
	"doorbell/poller/sandbox"
	"doorbell/store"
)

// TestASettledResponseWouldChangeNothing lets anything happen in any order, and judges each response that the poller need not read.
func TestASettledResponseWouldChangeNothing(t *testing.T) {
	for n, r := range slices.Concat(sandbox.Renderings(), styles()) {
		if n%3 != 0 {
			continue
		}
		t.Run(r.Name, func(t *testing.T) {
			t.Parallel()
			p := rapid.Custom(drawPlan).Example(n)
			settled, wrong := 0, 0
			r.MaxPageSize = min(r.MaxPageSize, 3)
			inBubble(t, sandbox.Options{}, r, []string{"A100"}, func(w *world) {
				w.begun = func(p *poller.Poller) {
					p.Audit(func(unchanged bool) {
						if settled++; !unchanged {
							wrong++
						}
					})
				}
				s := &simulation{world: w, plan: p, ids: r.IDs, endless: r.NoTotals, nameless: r.IDs == sandbox.IDAbsent, zoneless: r.TimeLayout == sandbox.TimeZoneless}
				s.run()
			})
			if settled == 0 || wrong > 0 {
				t.Errorf("%d of %d settled responses would have changed something, after %v", wrong, settled, p)
			}
		})
	}
}

// TestWithAndWithoutTheMemoryOfSettledResponsesTheSameIsRemembered lets the same happen twice, each time until all of it was read.
func TestWithAndWithoutTheMemoryOfSettledResponsesTheSameIsRemembered(t *testing.T) {
	for n := range 4 {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			p := rapid.Custom(drawPlan).Example(n)
			p.steps = slices.DeleteFunc(p.steps, func(h happening) bool {
				return slices.Contains([]string{"fault", "clear", "shift", "late", "untimed"}, h.what)
			})
			for n := range p.steps {
				p.steps[n].wait = 30 * time.Minute
			}
			with, without := rememberedAfter(t, p, false), rememberedAfter(t, p, true)
			if !slices.Equal(with, without) {
				t.Errorf("with the memory\n%s\nwithout\n%s\nafter %v", strings.Join(with, "\n"), strings.Join(without, "\n"), p)
			}
		})
	}
}

// rememberedAfter are the events and the contact requests that a plan leaves behind, sorted, without what depends on the moments of
// the polls.
func rememberedAfter(t *testing.T, p plan, everyOneIsJudged bool) (all []string) {
	r := sandbox.Flat()
	r.MaxPageSize = 3
	inBubble(t, sandbox.Options{}, r, []string{"A100"}, func(w *world) {
		if everyOneIsJudged {
			w.begun = func(p *poller.Poller) { p.Audit(func(bool) {}) }
		}
		s := &simulation{world: w, plan: p, ids: r.IDs}
		s.run()
		for _, e := range w.log("A100") {
			if e.Type == events.TypeContactRequestCreated || strings.HasPrefix(string(e.Type), "insertion.") {
				all = append(all, e.ID)
			} else {
				all = append(all, fmt.Sprint(e.Type, e.Reference, e.body["contactRequestId"], e.body["digest"]))
			}
		}
		w.must(w.store.View(func(tx *store.Tx) error {
			for i := range tx.Insertions("A100") {
				all = append(all, fmt.Sprint(i.Reference, i.Digest, i.Episode, i.Revision, i.Missing, i.Epoch, i.Polled, i.Listed))
				for _, c := range tx.ContactRequests("A100", i.Reference) {
					c.Emptied = time.Time{}
					all = append(all, fmt.Sprintf("%+v", c))
				}
			}
			return nil
		}))
	})
	slices.Sort(all)
	return all
}
