package page

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"doorbell/cmd/doorbell/ops"
	"doorbell/events"
	"doorbell/events/forward"
	"doorbell/poller"
	"doorbell/store"
)

var now = time.Date(2026, 11, 20, 14, 3, 12, 0, time.UTC)

// nobody is a name that must not be shown.
const nobody = "Muster-zq7"

// troubled is a daemon with nearly everything that can be wrong, and text wherever text may come from
// outside.
func troubled(text string) ops.Status {
	halt := poller.HaltStatus{
		Scope: events.ScopeAgency, Since: now.Add(-26 * time.Minute), Status: 403, ProbableReason: "agency_not_linked",
		Resume: "doorbell resume A100" + text, Advice: "Ask the provider, then run: doorbell resume A100" + text,
	}
	b200 := halt
	b200.Resume, b200.Advice = "doorbell resume B200"+text, "Ask the provider, then run: doorbell resume B200"+text
	return ops.Status{
		Version: "1.0.0" + text, Started: now.Add(-76 * time.Hour), DataDir: "/var/lib" + text, Instance: text,
		NATS:  ops.NATSStatus{URL: "nats://127.0.0.1:4222" + text, Connected: true, Stream: "LISTINGS" + text, Problem: "stream is full" + text},
		Store: store.Space{InUse: 7 << 30, Max: 8 << 30, Alarm: true},
		Watch: poller.Status{
			At: now, BaseURL: "https://api.example.com" + text, RequestsPerSecond: 5, Effective: 5,
			Agencies: []poller.AgencyStatus{
				{AgencyID: "A100" + text, State: "halted", Halts: []poller.HaltStatus{halt}},
				{AgencyID: "B200" + text, State: "halted", Halts: []poller.HaltStatus{b200}},
				{
					AgencyID: "C300" + text, State: "stale", LastError: "502 Bad Gateway" + text, Insertions: 96, LastCompleteWalk: now.Add(-73 * time.Second),
					Volatile: []store.Volatile{{Operation: "insertions", Path: "/views" + text}},
					Alarms:   []poller.Alarm{{Kind: "gap_detected", Operation: "insertions" + text, PropertyReferenceID: "a#1" + text}},
					Held:     &poller.HeldStatus{Reason: text, Missing: 611, Known: 1187, Approve: "doorbell approve C300" + text},
				},
				{AgencyID: "D400" + text, State: "starting" + text},
			},
		},
		Forwarders: []forward.WorkerStatus{
			{Forwarder: "slack", Destination: "hooks-1" + text, Whose: text, LastError: "503" + text, Attempts: 9, Waiting: 12, Events: 149},
			{Forwarder: "email", Destination: "mail-1", Events: 7, LastSent: now.Add(-3 * time.Minute)},
		},
		RoutesProblem: "line 3" + text,
	}
}

// of are the options of a page of a status, over a store with some events.
func of(t *testing.T, s ops.Status, payloads ...events.Payload) Options {
	t.Helper()
	log, err := store.Open(store.Options{Dir: t.TempDir(), BaseURL: "https://api.example.com"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { log.Close() })
	happen(t, log, payloads...)
	return Options{Status: func() (ops.Status, error) { return s, nil }, Store: log}
}

// happen appends events.
func happen(t *testing.T, s *store.Store, payloads ...events.Payload) {
	t.Helper()
	err := s.Update(func(tx *store.Tx) error {
		for _, p := range payloads {
			e, err := events.New(p)
			if err == nil {
				_, err = tx.Append(e)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// lead is a contact request without a person, with a text wherever text may come from outside.
func lead(id, text string) *events.ContactRequestCreated {
	return &events.ContactRequestCreated{
		Common: events.Common{AgencyID: "A100", ObservedAt: now}, PropertyReferenceID: "seefeld#" + id + text,
		ContactRequestID: id + text, Identity: events.IdentityID,
		Insertion: events.InsertionSummary{Title: "Loft mit <Weitblick>" + text, Locality: "Zürich" + text},
		Contact:   events.Contact{FirstName: "Nora", LastName: nobody, Message: "Guten Tag, " + nobody + " hier"},
		Record:    json.RawMessage(`{"lastName":"` + nobody + `"}`),
	}
}

func changed(reference string) *events.InsertionChanged {
	return &events.InsertionChanged{
		Common: events.Common{AgencyID: "A100", ObservedAt: now}, PropertyReferenceID: reference, Episode: 1, Revision: 2,
		Changes: []events.Change{{Path: "/prices/rent/gross", Before: json.RawMessage("2890"), After: json.RawMessage("2790")}},
	}
}

// asked is what a reader gets of a path.
func asked(o Options, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	Handler(o).ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w
}

var tags = regexp.MustCompile(`<[^>]*>`)

// words is the text of a page, as one line.
func words(page string) string {
	return strings.Join(strings.Fields(tags.ReplaceAllString(page, " ")), " ")
}

func TestThePageReportsTheStateOfEverything(t *testing.T) {
	o := of(t, troubled(""), changed("altau##"), lead("1", ""))
	o.AgencyName = func(id string) string { return map[string]string{"A100": "Muster Immobilien AG"}[id] }
	page := words(asked(o, "/").Body.String())
	for _, want := range []string{
		"■ 2 agencies are halted: the key is not allowed to read this agency – doorbell",
		"Ask the provider, then resume it. Since 2026-11-20 13:37:12 , 26 min ago Run doorbell resume --all Which ones A100 B200 ",
		"C300: 611 of 1,187 insertions are missing", "slack: a message is waiting (hooks-1) ", "Last error: 503 ", "Run doorbell forward slack --test",
		"A100 Muster Immobilien AG ■ halted – none yet – – 0",
		"C300 changes at each reading and is left out: /views of the list of insertions ■ no good response 96 73 s ago – – 0",
		"slack ▲ a message is waiting hooks-1 149 none yet 12 0", "email ● working mail-1 7 3 min ago 0 0",
		"New lead ", " Zürich · “Loft mit &lt;Weitblick&gt;” A100 Muster Immobilien AG · seefeld#1", "rent gross 2&#39;890 → 2&#39;790 A100 Muster",
		"Store: 7 GiB of 8 GiB in /var/lib", "It holds 7 GiB of 8 GiB (DOORBELL_STORE_MAX): raise DOORBELL_STORE_MAX if", "NATS: external, connected, stream LISTINGS, nats://127.0.0.1:4222",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("it lacks %q:\n%s", want, page)
		}
	}
	if strings.Contains(page, "All is well") || strings.Index(page, "New lead") > strings.Index(page, "rent gross") {
		t.Error("it reports that all is well, or the newest event is not first")
	}
	well := ops.Status{Watch: poller.Status{At: now, Agencies: []poller.AgencyStatus{{AgencyID: "A100", State: "watching"}}}, NATS: ops.NATSStatus{Connected: true}}
	page = words(asked(of(t, well), "/").Body.String())
	for _, want := range []string{"1 agency – doorbell ", "● All is well", "Nothing has happened yet", "No forwarder runs here"} {
		if !strings.Contains(page, want) {
			t.Errorf("for a healthy daemon it lacks %q:\n%s", want, page)
		}
	}
	if strings.Contains(page, "Needs attention") {
		t.Error("a healthy daemon needs attention")
	}
	if w := asked(Options{Status: func() (ops.Status, error) { return ops.Status{}, errors.New("secret path") }}, "/"); w.Code != http.StatusServiceUnavailable || strings.Contains(w.Body.String(), "secret") {
		t.Errorf("for an unreadable status it responds %d %s", w.Code, w.Body)
	}
}

func TestNobodyIsShownUnlessItIsAllowed(t *testing.T) {
	o := of(t, troubled(""), lead("1", ""))
	for _, people := range []bool{false, true} {
		o.ShowPeople = people
		synctest.Test(t, func(t *testing.T) {
			sent, leave := streamed(t, o, "")
			defer leave()
			for _, text := range []string{asked(o, "/").Body.String(), sent()} {
				if shown := strings.Contains(text, nobody) || strings.Contains(text, "Nora") || strings.Contains(text, "Guten Tag"); shown != people {
					t.Errorf("people %t: %s", people, text)
				}
			}
		})
	}
}

func TestHostileTextStaysTextAndShort(t *testing.T) {
	for _, text := range []string{
		`"><script>alert(1)</script><img src=x onerror=alert(1)>`, `' onfocus=alert(1) autofocus x='`, "javascript:alert(1)//",
		"</title></textarea></style><svg onload=alert(1)>", "a\x00b\xff\u202etfel\u2066", "line\r\nSet-Cookie: x\n\ndata: {}",
		"{{.At}} ${x} `", strings.Repeat("W", 1<<12), strings.Repeat("\U0001F469\u200d\U0001F467 ", 1<<10),
	} {
		valid := strings.ToValidUTF8(text, "?")
		o := of(t, troubled(text), lead("1", valid))
		page := asked(o, "/?q=%22%3E%3Cscript%3E").Body.String()
		if n := strings.Count(page, "<script"); n != 1 {
			t.Errorf("%.20q: %d scripts", text, n)
		}
		bare := regexp.MustCompile(`"[^"]*"`).ReplaceAllString(page, "")
		if m := regexp.MustCompile(`<[a-z]+[^<>]*\s(on[a-z]+|style)=`).FindString(bare); m != "" {
			t.Errorf("%.20q: %.200s", text, m)
		}
		visible := tags.ReplaceAllString(page, "")
		for _, none := range []string{"\x00", nobody, "\u202e", "\u2066", "%!"} {
			if strings.Contains(visible, none) {
				t.Errorf("%.20q: it says %q", text, none)
			}
		}
		if len(visible) > 30_000 {
			t.Errorf("%.20q: %d bytes to read", text, len(visible))
		}
		synctest.Test(t, func(t *testing.T) {
			sent, leave := streamed(t, o, "")
			defer leave()
			if lines := strings.Count(sent(), "\n"); lines != 5 { // retry and an event, each with an empty line
				t.Errorf("%.20q: %d lines: %.300q", text, lines, sent())
			}
		})
	}
}

func TestTheFilesOfThePageAreServedBesideIt(t *testing.T) {
	o := of(t, troubled(""))
	links := regexp.MustCompile(`(?:href|src)="(assets/[^"]+)"`).FindAllStringSubmatch(asked(o, "/").Body.String(), -1)
	if len(links) != 4 { // the icon twice
		t.Fatalf("links are %q", links)
	}
	for _, link := range links {
		if w := asked(o, "/"+link[1]); w.Code != http.StatusOK || strings.Contains(w.Header().Get("Content-Type"), "plain") {
			t.Errorf("%s: %d %v", link[1], w.Code, w.Header())
		}
	}
	for path, want := range map[string]int{"/assets/..%2fpage.go": 404, "/page.html": 404, "/other": 404, "/favicon.ico": 204} {
		if w := asked(o, path); w.Code != want {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

// paper records what is streamed, and can be read meanwhile.
type paper struct {
	*httptest.ResponseRecorder
	mu sync.Mutex
}

func (p *paper) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ResponseRecorder.Write(text)
}

func (p *paper) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.Body.String()
}

// streamed begins a stream in a bubble, and returns what was sent so far.
func streamed(t *testing.T, o Options, last string) (sent func() string, leave func()) {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/events", nil)
	r.Header.Set("Last-Event-ID", last)
	ctx, cancel := context.WithCancel(t.Context())
	w := &paper{ResponseRecorder: httptest.NewRecorder()}
	done := make(chan struct{})
	go func() {
		Handler(o).ServeHTTP(w, r.WithContext(ctx))
		close(done)
	}()
	return func() string { synctest.Wait(); return w.String() }, func() { cancel(); <-done }
}

func TestAReaderGetsTheNewestEventsAndEachOfThoseThatFollowOnce(t *testing.T) {
	var some []events.Payload
	for n := range maxShown + 5 {
		some = append(some, lead(fmt.Sprint(n+1), ""))
	}
	o := of(t, troubled(""), some...)
	synctest.Test(t, func(t *testing.T) {
		sent, leave := streamed(t, o, "")
		sent()
		happen(t, o.Store, changed("altau##"), changed("altau##2"))
		time.Sleep(lookEvery)
		text := sent()
		for position := 1; position <= maxShown+7; position++ {
			n := strings.Count(text, fmt.Sprintf("id: %d\n", position))
			if first := position <= 5; first && n != 0 || !first && n != 1 {
				t.Errorf("%d was sent %d times", position, n)
			}
		}
		leave()
		sent, leave = streamed(t, o, fmt.Sprint(maxShown+6))
		text = sent()
		_, data, _ := strings.Cut(text, "\ndata: ")
		var e struct{ ID, Type, SpecVersion, Line string }
		if err := json.NewDecoder(bytes.NewBufferString(data)).Decode(&e); err != nil || strings.Count(text, "\ndata: ") != 1 ||
			e.SpecVersion != "1.0" || e.Type != "insertion.changed" || !strings.HasSuffix(e.Line, "rent gross 2'890 → 2'790  altau##2") {
			t.Errorf("a reader that had all but the last one got %v, %s", err, text)
		}
		time.Sleep((beatEvery + 1) * lookEvery)
		if beat := strings.TrimPrefix(sent(), text); beat != ": \n\n" {
			t.Errorf("while nothing happens it sends %q", beat)
		}
		leave()
	})
}

func TestTheFiguresCountTheLeadsOfADayAndHoursWithoutAWatchAreHatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(30 * time.Minute) // from a full hour: none is passed meanwhile
		at := time.Now().UTC()
		hour := func(ago int) time.Time { return at.Truncate(time.Hour).Add(-time.Duration(ago) * time.Hour) }
		for name, c := range map[string]struct {
			halted, left time.Time
			hatched      int
			says         string
		}{
			"watched for six hours":       {hatched: 18, says: "Leads in 24 hours 2 2 in this hour "},
			"halted for two hours":        {halted: hour(2), hatched: 20, says: "Leads in 24 hours 2 2 in this hour 1 agency halted"},
			"no process for three hours":  {left: hour(3), hatched: 21, says: " s ago A100 Leads in 24 hours"},
			"requests stay below a limit": {hatched: 18, says: "Requests a second 2.5 of 5 900 requests since the start"},
		} {
			a := poller.AgencyStatus{AgencyID: "A100", State: "watching", WatchStart: hour(5).Add(time.Minute)}
			if !c.halted.IsZero() {
				a.State, a.Halts = "halted", []poller.HaltStatus{{Scope: events.ScopeAgency, Since: c.halted}}
			}
			o := of(t, ops.Status{Watch: poller.Status{
				At: at, RequestsPerSecond: 5, Effective: 5, LastMinute: 150, Requests: 900, Agencies: []poller.AgencyStatus{a},
			}}, lead("1", ""), lead("2", ""))
			err := o.Store.Update(func(tx *store.Tx) error { return tx.PutAgency("A100", store.Agency{LastCompleteWalk: c.left}) })
			if err != nil {
				t.Fatal(err)
			}
			page := asked(o, "/").Body.String()
			if n := strings.Count(page, `class="away"`); n != c.hatched || !strings.Contains(words(page), c.says) {
				t.Errorf("%s: %d hours are hatched, want %d, or it lacks %q:\n%s", name, n, c.hatched, c.says, words(page))
			}
			if !strings.Contains(page, "2 leads in the last 24 hours, at most 2 in an hour") {
				t.Errorf("%s: the chart says something else", name)
			}
		}
	})
}
