package poller

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"doorbell/poller/listings"
	"doorbell/poller/watch"
	"doorbell/store"
)

// BenchmarkAnswer is what lies between the bytes of an answer with one new contact request and the transaction that commits
// it: decoding it, and judging it by what is remembered. The rest of the answer is known.
//
//	GOMAXPROCS=1 go test ./poller -run '^$' -bench Answer -benchtime 300x -count 6
func BenchmarkAnswer(b *testing.B) {
	for _, known := range []int{5, 20} {
		b.Run(fmt.Sprintf("known=%d", known), func(b *testing.B) { benchmarkAnswer(b, known) })
	}
}

func benchmarkAnswer(b *testing.B, known int) {
	p, bodies := polled(b, known)
	bodies.add()
	b.ReportAllocs()
	began := processorTime()
	for b.Loop() {
		q := watch.Ask("createdAt", "desc", 20)
		page, err := p.ask(b.Context(), q)
		if err != nil {
			b.Fatal(err)
		}
		r := watch.Response{Question: q, Requests: page.ContactRequests, Total: page.Total, List: true}
		err = p.commit(func(prior watch.Prior) (watch.Effects, error) {
			j := watch.Judge(p.watched(), watch.NewWindow(), prior, r, page.Received)
			if len(j.Contacts) != 1 || len(j.Events) != 1 {
				b.Fatal("one is new")
			}
			return watch.Effects{}, nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64((processorTime()-began).Microseconds())/float64(b.N), "cpu-µs/op")
}

// processorTime is what counts on a machine that has other things to do as well.
func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// polled is an insertion that was polled, so that so many of its contact requests are known.
func polled(b *testing.B, known int) (*poll, *growingBody) {
	s, err := store.Open(store.Options{Dir: b.TempDir(), BaseURL: "https://api.test"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close() })
	bodies := newGrowingBody(known)
	p, err := New(Options{
		Store: s, RequestsPerSecond: 1e6, API: listings.Options{BaseURL: "https://api.test", Transport: bodies},
		Agencies: []AgencyKeys{{ID: "A100", Key: listings.NewKey("11111111-2222-4333-8444-555555555555")}},
	})
	if err != nil {
		b.Fatal(err)
	}
	a := p.agencies[0]
	err = s.Update(func(tx *store.Tx) error {
		i := store.Insertion{Reference: "seefeld1#1203#H2#0", Episode: 1, Start: time.Now().Add(-time.Hour), Baseline: true}
		if err := tx.PutInsertion(a.id, i); err != nil {
			return err
		}
		return tx.PutRecord(a.id, i.Reference, []byte(benchInsertion))
	})
	if err != nil {
		b.Fatal(err)
	}
	for range 2 {
		if c, err := a.poll(b.Context(), "seefeld1#1203#H2#0"); c != watch.ClassNone {
			b.Fatal(c, err)
		}
	}
	return &poll{a: a, reference: "seefeld1#1203#H2#0", state: a.pollState("seefeld1#1203#H2#0")}, bodies
}

// growingBody is an answer in which one more contact request may come to stand above the others.
type growingBody struct {
	rows []string
	body string
}

func newGrowingBody(count int) *growingBody {
	g := &growingBody{}
	for range count {
		g.add()
	}
	return g
}

func (g *growingBody) add() {
	n := len(g.rows)
	at := time.Now().Add(time.Duration(n) * time.Millisecond).UTC()
	g.rows = slices.Insert(g.rows, 0, fmt.Sprintf(benchContactRequest, n, at.Format(time.RFC3339Nano)))
	g.body = fmt.Sprintf(`{"contactRequests":[%s],"total":%d}`, strings.Join(g.rows[:min(len(g.rows), 20)], ","), len(g.rows))
}

func (g *growingBody) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(g.body)),
	}, nil
}

const benchContactRequest = `{"id":"%08[1]x-6d1f-4a53-9a57-%04[1]x00000000","createdAt":%[2]q,"score":72.5,` +
	`"salutation":"Frau","firstName":"Nora","lastName":"Beispiel","email":"nora.0.%[1]d@example.org","phone":"079 000 01 23",` +
	`"language":"de","message":"Guten Tag, ist die Wohnung noch frei?\r\nIch könnte am Samstag vorbeikommen.",` +
	`"viewingTimes":["SAT_MORNING"],"status":"NEW"}`

var benchInsertion = `{"propertyReferenceId":"seefeld1#1203#H2#0","id":4001234567,"offerType":"RENT","rankType":"TOP",` +
	`"address":{"street":"Beispielstrasse 12","postalCode":"8008","locality":"Zürich","country":"CH"},` +
	`"characteristics":{"numberOfRooms":3.5,"livingSpace":84,"hasBalcony":true,"floor":3,"yearBuilt":1974},` +
	`"prices":{"currency":"CHF","rent":{"net":2590,"extra":200,"gross":2790,"interval":"MONTH"}},` +
	`"localization":{"primary":"de","de":{"text":{"title":"Helle 3.5-Zimmerwohnung im Seefeld","description":"` +
	strings.Repeat("Ruhige Lage, Sonne am Nachmittag, nahe am See. ", 18) + `"}}},"createdAt":"2026-01-20T08:55:00+0100"}`
