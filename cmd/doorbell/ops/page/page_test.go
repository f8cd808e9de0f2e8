package page

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"doorbell/cmd/doorbell/ops"
	"doorbell/events"
	"doorbell/poller"
)

var now = time.Date(2026, 11, 20, 14, 3, 12, 0, time.UTC)

// shown is what a reader gets of a path.
func shown(t testing.TB, o Options, path string) string {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	Handler(o).ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	return w.Body.String()
}

// of are the options of a scene.
func of(s ops.Status, list []events.Event) Options {
	return Options{
		Status: func() (ops.Status, error) { return s, nil }, Recent: func() []events.Event { return list },
		After: func(position uint64) ([]events.Event, uint64, error) { return after(list, position) },
	}
}

// after are those of a list that follow a position.
func after(list []events.Event, position uint64) (found []events.Event, next uint64, err error) {
	next = position
	for _, e := range list {
		if e.Sequence > position {
			found, next = append(found, e), e.Sequence
		}
	}
	return found, next, nil
}

// words is the text of a page, as one line.
func words(page string) string {
	_, body, _ := strings.Cut(page, "<main")
	return strings.Join(strings.Fields(regexp.MustCompile(`<[^>]*>`).ReplaceAllString(body, " ")), " ")
}

func TestThePageShowsTheNameOfTheInstallation(t *testing.T) {
	s := ops.Status{Watch: poller.Status{At: now}}
	for instance, want := range map[string]string{"": "doorbell", "staging": "doorbell staging", "<b>": "doorbell &lt;b&gt;"} {
		s.Instance = instance
		for _, path := range []string{"/"} {
			if page := shown(t, of(s, nil), path); !strings.HasSuffix(title(page), " – "+want) || !strings.Contains(page, "</svg>"+want+"</h1>") {
				t.Errorf("%s: the title of %q is %q", path, instance, title(page))
			}
		}
	}
}

func title(page string) string {
	_, after, _ := strings.Cut(page, "<title>")
	text, _, _ := strings.Cut(after, "</title>")
	return text
}

func says(t *testing.T, page string, all ...string) {
	t.Helper()
	for _, text := range all {
		if !strings.Contains(page, text) {
			t.Errorf("it does not say %q", text)
		}
	}
}

func saysNot(t *testing.T, page string, none ...string) {
	t.Helper()
	for _, text := range none {
		if strings.Contains(page, text) {
			t.Errorf("it says %q", text)
		}
	}
}

func TestAWellDaemonSaysSoWithItsFigures(t *testing.T) {
	o := of(busyScene(now))
	o.AgencyName = func(id string) string { return map[string]string{"A100": "Muster Immobilien AG"}[id] }
	page := shown(t, o, "/")
	says(t, title(page), "2 agencies – doorbell")
	says(t, words(page), "All is well", "Watching 1,599 insertions of 2 agencies", "42 s median", "95 % within 4 min", "3.1 of 5", "should stay below 33 min",
		"A100 Muster Immobilien AG watching 412 73 s ago", "Last lead", "New lead 8 s ago Luminoso appartamento di 4.5 locali Zürich · score 72.5 A100 Muster Immobilien AG · seefeld#1202#H2#0338", "embedded, nats://127.0.0.1:4222 , stream LISTINGS", "143 MiB of 8 GiB", "slack works")
	saysNot(t, page, "Needs attention", `method="post"`, "What happens now", "Waiting for NATS")
}

func TestADaemonThatHasJustStartedSaysWhatHappensNowAndNext(t *testing.T) {
	page := shown(t, of(emptyScene(now)), "/")
	says(t, title(page), "◌ starting – doorbell")
	says(t, words(page), "Starting to watch 2 agencies", "Nothing has happened yet", "What already exists is learned, not announced", "A100 first walk 250 none yet", "B200 first walk 150 3 s ago – – –")
}

func TestWhatIsNotKnownYetIsNoZero(t *testing.T) {
	s := base(now)
	for n := range 200 {
		s.Watch.Agencies = append(s.Watch.Agencies, poller.AgencyStatus{AgencyID: fmt.Sprint("A", n), State: "starting", Freshness: &poller.Freshness{Insertions: 8, NeverPolled: 8, CapSeconds: 40}}) // the walks go on
	}
	text := words(shown(t, of(s, nil), "/"))
	says(t, text, "Last lead – none lately", "Leads in 24 hours – not watching yet", "Insertions – of 200 agencies", "A7 first walk – none yet – – –", "Longest unchecked – nothing polled yet")
	saysNot(t, text, "0 insertion", "0 of 0", "0 in this hour")
	s.Watch.Agencies[7].Insertions, s.Watch.Agencies[7].Freshness.OldestSeconds = 8, 6
	text = words(shown(t, of(s, nil), "/"))
	says(t, text, "Longest unchecked 6 s", "Insertions 8 8 not polled yet", "A7 first walk 8 none yet 6 s 8 never yet – –")
}

func TestWithoutAgenciesItSaysHowToNameOne(t *testing.T) {
	page := shown(t, of(base(now), nil), "/")
	says(t, words(page), "No agency is watched", "DOORBELL_AGENCIES", "There is none yet")
}

func TestEveryTroubleIsToldWithWhatEndsIt(t *testing.T) {
	s, list := troubledScene(now)
	page := shown(t, of(s, list), "/")
	says(t, title(page), "■ A100 is halted: the key may not read this agency – doorbell")
	says(t, words(page), "and 6 more", "Last lead 8 s ago Luminoso appartamento di 4.5 locali · A100 ")
	says(t, words(page), "A100 is halted: the key may not read this agency", "ask the provider&#39;s account manager to link it, then resume it.", "doorbell resume A100",
		"B200 lacks 611 of 1,187 insertions", "in 18 min", "doorbell approve B200", "C300: no good answer about contact requests", "502 Bad Gateway", "doorbell check",
		"An insertion of B200 is halted: altau##H1#0034", "B200: answers about contact requests have changed their form", "--agency B200 --type watch.schema_drifted",
		"slack: delivery fails", "12 events waiting. doorbell retries by itself", "The store is nearly full", "raise DOORBELL_STORE_MAX", "NATS does not take events", "(1,244 waiting)",
		"maximum bytes exceeded", "2.5 now: throttled by the API", "37 insertions past 33 min", "last was partial: page failed", "doorbell dlq ls",
		"C300 changes at each reading, left out: /picture of insertions, /relay of contact requests, /views of insertions no good answer 96 ",
		"NATS not usable 1,244 events waiting, embedded", "delivery fails hooks.slack")
	saysNot(t, page, "All is well", "<form method")
}

func TestWhatSharesACauseIsOneTrouble(t *testing.T) {
	s, list := manyScene(now, 200)
	for n := range s.Watch.Agencies {
		a := &s.Watch.Agencies[n]
		a.State, a.Held = "halted", nil
		a.Halts = []poller.HaltStatus{{Scope: events.ScopeAgency, Since: now, Status: 403, ProbableReason: "key_rejected", Resume: "doorbell resume " + a.AgencyID, Advice: "Do this. If the key is right, run: doorbell resume " + a.AgencyID}}
	}
	page := shown(t, of(s, list), "/")
	says(t, title(page), "■ 200 agencies are halted: the API refuses the key – doorbell")
	says(t, words(page), "200 agencies are halted: the API refuses the key", "If the key is right, resume it.")
	if n := strings.Count(page, "<article"); n != 1 {
		t.Errorf("%d troubles", n)
	}
	if n := strings.Count(page, `<code>doorbell resume `); n != 201 { // and all at once
		t.Errorf("%d can be resumed", n)
	}
	says(t, words(page), "doorbell resume --all")
}

func TestADeadAPIIsOneTroubleAndNotThatOfItsAgencies(t *testing.T) {
	s, list := busyScene(now)
	s.Watch.Down = now.Add(20 * time.Second).Format(time.RFC3339)
	for n := range s.Watch.Agencies {
		s.Watch.Agencies[n].State, s.Watch.Agencies[n].LastError = "backing_off", "connection refused"
	}
	page := shown(t, of(s, list), "/")
	says(t, words(page), "The API does not answer", "There is no connection to https://api.example.com", "connection refused")
	if n := strings.Count(page, "<article"); n != 1 {
		t.Errorf("%d troubles", n)
	}
}

func TestNobodyIsShownUnlessItIsAllowed(t *testing.T) {
	s, list := busyScene(now)
	o := of(s, list)
	for _, path := range []string{"/", "/"} {
		saysNot(t, shown(t, o, path), nobody, "Nora", "+4179", "Guten Tag")
	}
	for _, e := range list {
		text, ok := bare(o).cloudEvent(e)
		if !ok || strings.Contains(string(text), nobody) || strings.Contains(string(text), "Nora") {
			t.Fatalf("%t: %s tells a person", ok, e.Type)
		}
	}
	o.ShowPeople = true
	says(t, shown(t, o, "/"), "Nora "+nobody, ": Guten Tag")
	text, _ := bare(o).cloudEvent(list[0])
	says(t, string(text), nobody+"@example.org")
}

// bare is a handler without its routes.
func bare(o Options) *handler { return &handler{o: o, readers: make(chan struct{}, mostReaders)} }

func TestWhatIsSentIsACloudEventWithALine(t *testing.T) {
	s, list := busyScene(now)
	text, ok := bare(of(s, list)).cloudEvent(list[2])
	if !ok || bytes.ContainsRune(text, '\n') {
		t.Fatalf("%t %s", ok, text)
	}
	var e struct {
		ID   string
		Type events.Type
	}
	if err := json.Unmarshal(text, &e); err != nil || e.ID != list[2].ID || e.Type != events.TypeInsertionAppeared {
		t.Errorf("%v: %+v", err, e)
	}
	var v struct{ Line, SpecVersion string }
	if err := json.Unmarshal(text, &v); err != nil || v.SpecVersion != "1.0" || !strings.Contains(v.Line, "“Ruhig & zentral: 2.5 Zimmer”") {
		t.Errorf("%v: %+v", err, v)
	}
}

func TestHostileTextStaysTextAndShort(t *testing.T) {
	for _, text := range []string{
		`"><script>alert(1)</script><img src=x onerror=alert(1)>`, `' onfocus=alert(1) autofocus x='`, "javascript:alert(1)//", "</title></textarea></style><svg onload=alert(1)>",
		"a\x00b\xff\u202etfel\u2066", "line\r\nSet-Cookie: x\n\ndata: {}", "{{.At}} ${x} `", strings.Repeat("W", 1<<16), strings.Repeat("\U0001F469\u200d\U0001F467 ", 1<<13), "",
	} {
		s, list := hostile(now, text)
		o := of(s, list)
		page := shown(t, o, "/?q=%22%3E%3Cscript%3E&sort=%22%3E%3Cscript%3E&done=resumed&agency=%3Cscript%3E")
		if n := strings.Count(page, "<script"); n != 1 {
			t.Errorf("%.20q: %d scripts", text, n)
		}
		tags := regexp.MustCompile(`"[^"]*"`).ReplaceAllString(page, "")
		if m := regexp.MustCompile(`<[a-z]+[^<>]*\s(on[a-z]+|style)=`).FindString(tags); m != "" {
			t.Errorf("%.20q: %.200s", text, m)
		}
		saysNot(t, page, "\x00", nobody, "href=\"javascript", "%!")
		visible := regexp.MustCompile(`<[^>]*>`).ReplaceAllString(page, "")
		saysNot(t, visible, "\u202e", "\u2066")
		if len(visible) > 60_000 {
			t.Errorf("%.20q: %d bytes to read", text, len(visible))
		}
		if data, ok := bare(o).cloudEvent(list[0]); ok && bytes.ContainsAny(data, "\n\r") {
			t.Errorf("%.20q: more than one line", text)
		}
	}
}

func TestAStatusThatCannotBeReadIsSaidWithoutItsError(t *testing.T) {
	o := Options{Status: func() (ops.Status, error) { return ops.Status{}, errors.New("secret path") }}
	w := httptest.NewRecorder()
	Handler(o).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	if w.Code != http.StatusServiceUnavailable || strings.Contains(w.Body.String(), "secret") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestManyOpenPagesAskOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no second passes in it
		asked := 0
		s, list := busyScene(now)
		o := of(s, list)
		o.Status = func() (ops.Status, error) { asked++; return s, nil }
		h := Handler(o)
		for range 20 {
			h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/", nil))
		}
		if asked != 1 {
			t.Errorf("the status was read %d times", asked)
		}
	})
}

func TestFilesBesideThePageAreKeptByTheirVersion(t *testing.T) {
	o := of(busyScene(now))
	page := shown(t, o, "/")
	links := regexp.MustCompile(`(?:href|src)="(assets/[^"]+)"`).FindAllStringSubmatch(page, -1)
	if len(links) != 3 {
		t.Fatalf("links are %q", links)
	}
	for _, link := range links {
		w := httptest.NewRecorder()
		Handler(o).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/"+link[1], nil))
		if w.Code != http.StatusOK || !strings.Contains(w.Header().Get("Cache-Control"), "immutable") || strings.Contains(w.Header().Get("Content-Type"), "plain") {
			t.Errorf("%s: %d %v", link[1], w.Code, w.Header())
		}
	}
	for _, path := range []string{"/assets/", "/assets/..%2fpage.go", "/assets/page.html", "/other", "/actions/resume"} {
		w := httptest.NewRecorder()
		Handler(o).ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}

// TestABrowserThatAsksForAnIconIsNotRefused: documents beside the page, as /v1/status, name none.
func TestABrowserThatAsksForAnIconIsNotRefused(t *testing.T) {
	w := httptest.NewRecorder()
	Handler(of(busyScene(now))).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/favicon.ico", nil))
	if w.Code != http.StatusNoContent {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestThePageOf200AgenciesStaysSmall bounds what a browser fetches each five seconds, as it travels.
func TestThePageOf200AgenciesStaysSmall(t *testing.T) {
	page := shown(t, of(manyScene(now, 200)), "/")
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	io.WriteString(z, page) //nolint:errcheck // into memory
	z.Close()
	if t.Logf("%d bytes, %d compressed", len(page), b.Len()); len(page) > 300_000 || b.Len() > 30_000 {
		t.Errorf("%d bytes, %d compressed", len(page), b.Len())
	}
}

// BenchmarkPage renders the part that is renewed.
func BenchmarkPage(b *testing.B) {
	s, list := manyScene(now, 200)
	o := of(s, list)
	h := bare(o)
	for b.Loop() {
		if err := templates.ExecuteTemplate(io.Discard, "page", h.view(s)); err != nil {
			b.Fatal(err)
		}
	}
}

func TestHoursThatAreNotOfTheLastDayAreNotDrawn(t *testing.T) {
	s, _ := busyScene(now)
	s.Hours = []ops.AgencyHours{{AgencyID: "A100", Hours: []ops.Hour{
		{At: now.Truncate(time.Hour), Leads: 3, Events: 5},
		{At: now.Truncate(time.Hour).Add(-23 * time.Hour), Leads: 4, Events: 4},
		{At: now.Truncate(time.Hour).Add(-24 * time.Hour), Leads: 100},
		{At: now.Truncate(time.Hour).Add(time.Hour), Leads: 100},
	}}}
	if c := newChart(s); c.Total != 7 || c.Last != 3 || c.Most != 4 || len(c.Bars) != 2 {
		t.Errorf("%+v", c)
	}
}

// TestHoursInWhichNothingWasWatchedAreNoZero: before the watch began, while no daemon ran, and since
// all agencies are halted or stale.
func TestHoursInWhichNothingWasWatchedAreNoZero(t *testing.T) {
	hour := now.Truncate(time.Hour)
	for name, tt := range map[string]struct {
		change func(s *ops.Status, a *poller.AgencyStatus)
		away   int
	}{
		"watched for days": {func(*ops.Status, *poller.AgencyStatus) {}, 0},
		"begun lately":     {func(_ *ops.Status, a *poller.AgencyStatus) { a.WatchStart = hour.Add(-90 * time.Minute) }, 21},
		"halted": {func(_ *ops.Status, a *poller.AgencyStatus) {
			a.Halts = []poller.HaltStatus{{Scope: events.ScopeAgency, Since: hour.Add(-90 * time.Minute)}}
		}, 2},
		"an insertion is halted": {func(_ *ops.Status, a *poller.AgencyStatus) {
			a.Halts = []poller.HaltStatus{{Scope: events.ScopeInsertion, Since: hour.Add(-90 * time.Minute)}}
		}, 0},
		"stale": {func(_ *ops.Status, a *poller.AgencyStatus) {
			a.Alarms = []poller.Alarm{{Kind: "stale", Since: hour.Add(-30 * time.Minute)}}
		}, 1},
		"no daemon": {func(s *ops.Status, _ *poller.AgencyStatus) {
			s.Hours = []ops.AgencyHours{{AgencyID: "A100", Hours: []ops.Hour{{At: hour.Add(-5 * time.Hour), Away: true}, {At: hour.Add(-4 * time.Hour)}}}}
		}, 1},
		"another one is watched": {func(s *ops.Status, a *poller.AgencyStatus) {
			a.WatchStart = now
			s.Watch.Agencies = append(s.Watch.Agencies, agency("B200", 10, now))
		}, 0},
	} {
		s := base(now)
		s.Watch.Agencies = []poller.AgencyStatus{agency("A100", 10, now)}
		tt.change(&s, &s.Watch.Agencies[0])
		n := 0
		for _, b := range newChart(s).Bars {
			if b.Away && strings.HasSuffix(b.Title, "nothing was watched") {
				n++
			}
		}
		if n != tt.away {
			t.Errorf("%s: %d hours", name, n)
		}
	}
}

func TestEveryFigureSaysThatItLacksWhatIsHalted(t *testing.T) {
	s, list := busyScene(now)
	s.Watch.Agencies[0].State, s.Watch.Agencies[0].Freshness.PastCap, s.Watch.Agencies[0].Freshness.OldestSeconds = "halted", 412, 90_000
	page := words(shown(t, of(s, list), "/"))
	if n := strings.Count(page, "1 agency halted"); n != 5 { // all but that of the requests
		t.Errorf("%d figures say it", n)
	}
	if f := longest(s); f.Level != "" || f.Value != "4 min" {
		t.Errorf("%+v", f)
	}
}

// TestAStateThatManyShareIsReadOnce: the rows below show its shape alone.
func TestAStateThatManyShareIsReadOnce(t *testing.T) {
	s, list := manyScene(now, 200)
	page := shown(t, of(s, list), "/")
	for _, word := range []string{"watching", "halted", "API fails", "first walk"} {
		if n := strings.Count(page, "<span>"+word+"</span>"); n != 1 {
			t.Errorf("%q is read %d times", word, n)
		}
	}
}
