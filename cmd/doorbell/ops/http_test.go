package ops

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"doorbell/events/helptest"
	"doorbell/poller"
)

const testToken = "0123456789abcdef-sentinel"

// site is a server over real HTTP, whose page shows what the caller may do.
type site struct {
	url  string
	stop func() error
	log  *helptest.Lines

	feedToken string

	mu    sync.Mutex
	asked []string // verbs
}

func (s *site) done(verb string, q AgencyRequest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, verb+" "+q.AgencyID+" "+q.PropertyReferenceID)
	return map[string]error{
		"nobody": poller.ErrUnknownAgency, "halted": poller.ErrHalted,
		"early": &poller.TooSoonError{AgencyID: "early", Wait: 12300 * time.Millisecond},
	}[q.AgencyID]
}

func (s *site) verbs() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.asked, ", ")
}

func (s *site) options(token string) HTTPOptions {
	page := http.NewServeMux()
	page.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "the page")
	})
	page.HandleFunc("GET /large", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, strings.Repeat("all the same ", 1000))
	})
	page.HandleFunc("GET /events", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for n := 0; r.Method != http.MethodHead && r.Context().Err() == nil; n++ {
			if _, err := fmt.Fprintf(w, "data: %d\n\n", n); err != nil {
				return
			}
			w.(http.Flusher).Flush()
			select {
			case <-r.Context().Done():
			case <-time.After(20 * time.Second):
			}
		}
	})
	return HTTPOptions{
		Page:    page,
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "metrics") }),
		Schemas: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/schemas/a.json" {
				http.NotFound(w, r)
				return
			}
			io.WriteString(w, "schemas")
		}),
		Health: func() Health {
			return NewHealth(Check{Name: "store", OK: true, Live: true}, Check{Name: "NATS", Text: "it is away"})
		},
		Verbs: Verbs{
			Status: func() (Status, error) { return Status{Version: "the status"}, nil },
			Resume: func(_ context.Context, q AgencyRequest) (ResumeAnswer, error) {
				return ResumeAnswer{Ended: 1}, s.done("resume", q)
			},
			Approve: func(_ context.Context, q AgencyRequest) (ApproveAnswer, error) {
				return ApproveAnswer{Held: true}, s.done("approve", q)
			},
			Poll: func(_ context.Context, q AgencyRequest) (poller.PolledNow, error) {
				return poller.PolledNow{Waits: poller.WaitsPoll, Insertions: 1, Of: 2}, s.done("poll", q)
			},
			Backup: func(w io.Writer, sized func(int64)) error {
				sized(6)
				_, err := io.WriteString(w, "backup")
				return err
			},
		},
		Feed:  http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "the feed") }),
		Token: token, FeedToken: s.feedToken, Log: slog.New(slog.NewTextHandler(s.log, nil)),
	}
}

// open serves at an address until the test ends, with the token of the page and that of the feed.
// Nothing that is logged may hold a token.
func open(t *testing.T, address, token, feedToken string) *site {
	t.Helper()
	l, err := net.Listen("tcp", address)
	must(t, err)
	s := &site{url: "http://127.0.0.1:" + fmt.Sprint(l.Addr().(*net.TCPAddr).Port), log: &helptest.Lines{}, feedToken: feedToken}
	s.serve(t, l, token)
	return s
}

func (s *site) serve(t *testing.T, l net.Listener, token string) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- ServeHTTP(ctx, l, s.options(token)) }()
	s.stop = sync.OnceValue(func() error {
		cancel()
		return <-ended
	})
	t.Cleanup(func() {
		if err := s.stop(); err != nil {
			t.Error(err)
		}
		if strings.Contains(s.log.String(), "sentinel") {
			t.Errorf("the token was logged:\n%s", s.log)
		}
	})
}

// answered is an answer that was read whole.
type answered struct {
	*http.Response
	body string
}

// ask sends a request. Headers are given as name, value; Host is the name it is sent to, with "-" the real one.
func (s *site) ask(t *testing.T, method, path, body string, headers ...string) answered {
	t.Helper()
	r, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	must(t, err)
	for i := 0; i < len(headers); i += 2 {
		if headers[i] == "Host" {
			r.Host = headers[i+1]
			continue
		}
		r.Header.Add(headers[i], headers[i+1])
	}
	client := http.Client{
		Transport:     &http.Transport{DisableCompression: true, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	response, err := client.Do(r)
	must(t, err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	must(t, err)
	return answered{response, string(text)}
}

// raw sends bytes as they are and returns all that comes back until the server hangs up.
func (s *site) raw(t *testing.T, text string) string {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	must(t, err)
	defer c.Close()
	if _, err := io.WriteString(c, text); err != nil {
		t.Fatal(err)
	}
	back, _ := io.ReadAll(c) // a reset is an end, too
	return string(back)
}

const (
	everywhere = "0.0.0.0:0" // is no loopback address
	here       = "127.0.0.1:0"
)

// bearer is how a program shows a token, password how a browser does.
func bearer(token string) []string { return []string{"Authorization", "Bearer " + token} }

func password(token string) []string {
	return []string{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte("anybody:"+token))}
}

var withToken = bearer(testToken)

func TestEverybodySeesHealthMetricsAndSchemas(t *testing.T) {
	s := open(t, everywhere, testToken, "")
	for path, want := range map[string]string{
		"/livez": "200 ok\n", "/metrics": "200 metrics", "/schemas/a.json": "200 schemas",
		"/readyz": "503 failing\nNATS: it is away\n",
		"/readyz?verbose": `503 {"status":"failing","checks":[{"name":"store","ok":true,"live":true},` +
			`{"name":"NATS","ok":false,"text":"it is away","live":false}]}` + "\n",
	} {
		got := s.ask(t, "GET", path, "", "Host", "any.example", "Sec-Fetch-Site", "cross-site")
		if is := fmt.Sprintf("%d %s", got.StatusCode, got.body); is != want {
			t.Errorf("%s: %q, want %q", path, is, want)
		}
		if head := s.ask(t, "HEAD", path, ""); head.StatusCode != got.StatusCode || head.body != "" {
			t.Errorf("HEAD %s: %s %q", path, head.Status, head.body)
		}
	}
}

// TestWhoMaySeeThePageReadTheFeedAndAct is about every way in which tokens may be set and shown: the
// page and everything else that only shows, the feed, and a command.
func TestWhoMaySeeThePageReadTheFeedAndAct(t *testing.T) {
	const tok, feed = testToken, testFeedToken
	host := func(name string) []string { return []string{"Host", name} }
	site := func(site, mode, dest string) []string {
		return []string{"Sec-Fetch-Site", site, "Sec-Fetch-Mode", mode, "Sec-Fetch-Dest", dest}
	}
	with := slices.Concat[[]string]
	for _, tt := range []struct {
		name, address, token, feedToken string
		headers                         []string
		page, feed, act                 int
	}{
		{"this machine", here, "", "", nil, 200, 200, 403},
		{"this machine, by name", here, "", "", host("LocalHost:8080"), 200, 200, 403},
		{"this machine, IPv6", here, "", "", host("[::1]:3667"), 200, 200, 403},
		{"this machine, with a token set", here, tok, "", nil, 401, 401, 401},
		{"with the token", here, tok, "", withToken, 200, 200, 202},
		{"with the token, under any name", everywhere, tok, "", with(host("doorbell.example"), withToken), 200, 200, 202},
		{"with the token, through a proxy", here, tok, "", with([]string{"X-Forwarded-For", "192.0.2.1"}, withToken), 200, 200, 202},
		{"the token as a password", everywhere, tok, "", password(tok), 200, 200, 202},

		{"DNS rebinding", here, "", "", host("evil.example"), 403, 403, 403},
		{"DNS rebinding, with a token set", here, tok, "", host("evil.example"), 401, 401, 401},
		{"a name that begins like ours", here, "", "", host("localhost.evil.example"), 403, 403, 403},
		{"a name that begins like our address", here, "", "", host("127.0.0.1.evil.example:3667"), 403, 403, 403},
		{"the address of all", here, "", "", host("0.0.0.0:3667"), 403, 403, 403},
		{"through a proxy", here, "", "", []string{"X-Forwarded-For", "192.0.2.1"}, 403, 403, 403},
		{"through another proxy", here, "", "", []string{"Forwarded", "for=192.0.2.1"}, 403, 403, 403},
		{"all addresses", everywhere, "", "", nil, 403, 403, 403},
		{"all addresses, with a token set", everywhere, tok, "", nil, 401, 401, 401},

		{"a wrong token", here, tok, "", bearer(tok + "x"), 401, 401, 401},
		{"a part of the token", here, tok, "", bearer(tok[:20]), 401, 401, 401},
		{"an empty token", here, tok, "", bearer(""), 401, 401, 401},
		{"an empty token where none is set", everywhere, "", "", bearer(""), 403, 403, 403},
		{"a token where none is set", here, "", "", withToken, 403, 403, 403},
		{"a wrong password", here, tok, "", password(tok + "x"), 401, 401, 401},
		{"the token in another scheme", here, tok, "", []string{"Authorization", "Digest " + tok}, 401, 401, 401},
		{"two tokens", here, tok, "", with(withToken, withToken), 401, 401, 401},

		{"a part of another site's page", here, "", "", site("cross-site", "no-cors", ""), 403, 403, 403},
		{"a frame of another site's page", here, "", "", site("cross-site", "navigate", "iframe"), 403, 403, 403},
		{"a part of a page of another port", here, "", "", site("same-site", "cors", ""), 403, 403, 403},
		{"a link on another site", here, "", "", site("cross-site", "navigate", "document"), 200, 200, 403},
		{"another site in the browser of who has the token", here, tok, "", with([]string{"Sec-Fetch-Site", "cross-site"}, password(tok)), 403, 403, 403},
		{"an old browser on another site", here, tok, "", with([]string{"Origin", "https://evil.example"}, password(tok)), 200, 200, 403},

		{"token of the feed, none shown", here, "", feed, nil, 200, 401, 403},
		{"token of the feed, shown", everywhere, "", feed, bearer(feed), 403, 200, 403},
		{"token of the feed, as a password", everywhere, "", feed, password(feed), 403, 200, 403},
		{"token of the feed, a wrong one", everywhere, "", feed, bearer(tok), 403, 401, 403},
		{"both, none shown", here, tok, feed, nil, 401, 401, 401},
		{"both, that of the feed", everywhere, tok, feed, bearer(feed), 401, 200, 401},
		{"both, that of the page", everywhere, tok, feed, bearer(tok), 200, 200, 202},
		{"both, an empty one", everywhere, tok, feed, bearer(""), 401, 401, 401},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := open(t, tt.address, tt.token, tt.feedToken)
			for path, want := range map[string]int{
				"GET /": tt.page, "GET /v1/status": tt.page, "HEAD /events": tt.page, "GET /debug/pprof/heap": tt.page,
				"GET /v1/events?after=x": tt.feed, "POST /v1/poll": tt.act,
			} {
				method, path, _ := strings.Cut(path, " ")
				got := s.ask(t, method, path, `{"agencyId":"A100"}`, tt.headers...)
				if got.StatusCode != want || want > 202 && !strings.Contains(got.body, `{"error":"`) && method != "HEAD" {
					t.Errorf("%s %s: %d, want %d; %.100s", method, path, got.StatusCode, want, got.body)
				}
				asks := strings.HasPrefix(got.Header.Get("WWW-Authenticate"), "Basic ")
				if asks != (want == http.StatusUnauthorized) {
					t.Errorf("%s %s: a browser asks its person for the token: %t", method, path, asks)
				}
			}
			if done := s.verbs() != ""; done != (tt.act == 202) {
				t.Errorf("done: %s", s.verbs())
			}
		})
	}
}

const testFeedToken = "fedcba9876543210-sentinel"

func TestTheHolderOfTheTokenPollsResumesAndApproves(t *testing.T) {
	s := open(t, everywhere, testToken, "")
	for _, tt := range []struct{ path, body, want, done string }{
		{"/v1/resume", `{"agencyId":"A100","propertyReferenceId":"a#1##"}`, `200 {"ended":1}`, "resume A100 a#1##"},
		{"/v1/approve", `{"agencyId":"A100"}`, `200 {"held":true}`, "approve A100"},
		{"/v1/poll", `{"agencyId":"A100","propertyReferenceId":"a#1##"}`, `202 {"waits":"poll","insertions":1,"of":2}`, "poll A100 a#1##"},
		{"/v1/poll", `{"agencyId":"A100"}`, `202 {"waits":"poll"`, "poll A100 "},
		{"/v1/poll", `{"agencyId":"nobody"}`, `404 {"error":"agency is not watched","hint":"doorbell status lists`, ""},
		{"/v1/poll", `{"agencyId":"halted"}`, `409 {"error":"`, ""},
		{"/v1/poll", `{"agencyId":"early"}`, `429 {"error":"`, ""},
		{"/v1/poll", `{"agencyId":"` + strings.Repeat("x", maxBody) + `"}`, `400 {"error":"`, ""},
		{"/v1/poll", `{"agencyId":"A100","propertyReferenceId":"` + strings.Repeat("x", maxReference+1) + `"}`, `400 {"error":"`, ""},
		{"/v1/poll", `agencyId=A100`, `400 {"error":"`, ""},
		{"/v1/poll", `{"agencyId":["A100"]}`, `400 {"error":"`, ""},
		{"/v1/poll", ``, `400 {"error":"`, ""},
		{"/v1/nothing", `{}`, "405 ", ""},
	} {
		got := s.ask(t, "POST", tt.path, tt.body, withToken...)
		if is := fmt.Sprintf("%d %s", got.StatusCode, got.body); !strings.HasPrefix(is, tt.want) || !strings.Contains(s.verbs(), tt.done) {
			t.Errorf("%s %.60s: %s; done: %s", tt.path, tt.body, is, s.verbs())
		}
		if wait := got.Header.Get("Retry-After"); (wait == "13") != (got.StatusCode == http.StatusTooManyRequests) {
			t.Errorf("%s %.60s: wait %q", tt.path, tt.body, wait)
		}
	}
	s.ask(t, "GET", "/v1/status", "", bearer("wrong-wrong-wrong")...)
	for _, want := range []string{"verb=/v1/approve from=127.0.0.1", `msg="a request had a wrong token" from=127.0.0.1`} {
		if text := s.log.String(); !strings.Contains(text, want) || strings.Contains(text, "wrong-wrong") {
			t.Errorf("no %s in the log:\n%s", want, text)
		}
	}
}

// TestNothingElseIsDoneOrFetchedOverTCP: what the commands request at the socket does not exist there, whatever token is shown.
func TestNothingElseIsDoneOrFetchedOverTCP(t *testing.T) {
	s := open(t, here, testToken, "")
	for _, line := range []string{
		"POST /resume", "POST /approve", "POST /poll", "POST /events", "POST /events/count", "POST /replay", "POST /find", "POST /export", "POST /forget",
		"POST /dlq/drop", "POST /v1/forget", "POST /v1/backup", "POST /v1/replay", "POST /v1/events", "POST /v1/status", "POST /actions/resume", "POST /actions/poll",
		"PUT /v1/poll", "DELETE /v1/events", "PATCH /v1/resume", "GET /backup", "GET /status", "GET /v1/backup", "GET /v1/poll", "HEAD /backup",
	} {
		method, path, _ := strings.Cut(line, " ")
		got := s.ask(t, method, path, `{"agencyId":"A100","number":1}`, append([]string{"Content-Type", "application/json"}, withToken...)...)
		if got.StatusCode != http.StatusNotFound && got.StatusCode != http.StatusMethodNotAllowed || strings.Contains(got.body, "backup") || strings.Contains(got.body, "the status") {
			t.Errorf("%s: %s %s", line, got.Status, got.body)
		}
	}
	if s.verbs() != "" {
		t.Errorf("done: %s", s.verbs())
	}
}

func TestEveryResponseHasTheSecurityHeaders(t *testing.T) {
	s := open(t, here, testToken, "")
	for _, line := range []string{"GET /", "GET /livez", "GET /nothing", "POST /v1/resume", "DELETE /"} {
		method, path, _ := strings.Cut(line, " ")
		h := s.ask(t, method, path, "").Header
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "same-origin",
			"Cache-Control": "no-store", "Cross-Origin-Resource-Policy": "same-origin",
			"Access-Control-Allow-Origin": "", "Content-Security-Policy": contentPolicy,
		} {
			if h.Get(name) != want {
				t.Errorf("%s: %s is %q", line, name, h.Get(name))
			}
		}
	}
	for _, want := range []string{
		"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'", "script-src 'self'",
	} {
		if !strings.Contains(contentPolicy, want) || strings.Contains(contentPolicy, "unsafe") {
			t.Errorf("policy %q lacks %s", contentPolicy, want)
		}
	}
}

func TestTricksWithPathsAndHeadersShowNothing(t *testing.T) {
	s := open(t, everywhere, testToken, "")
	for _, line := range []string{
		"GET //v1/status", "GET /./v1/status", "GET /livez/../v1/status", "GET /metrics/..%2fstatus", "GET /v1/%73tatus", "GET /schemas/../v1/status",
		"GET /schemas/%2e%2e/v1/status", "GET /schemas/..;/v1/status", "GET /V1/STATUS", "GET /v1/status/", "GET /v1/status?/livez", "GET /v1/status;/livez",
		"GET http://127.0.0.1/v1/status", "GET http://x@localhost/v1/status", "GET \\status", "GET /livez%00/../v1/status", "HEAD /v1/status", "GET *",
		"OPTIONS *", "TRACE /v1/status", "CONNECT /v1/status", "CONNECT localhost:80", "get /v1/status", "PROPFIND /v1/status", "GET /backup", "GET /backup/",
		"GET /events", "GET /events/", "GET /v1/poll", "GET /v1/events", "GET /v1/./events", "GET /v1//events",
	} {
		for _, headers := range []string{
			"Host: localhost\r\n", "Host: localhost\r\nX-Original-Url: /livez\r\nX-Http-Method-Override: GET\r\n",
			"Host: localhost\r\nHost: localhost\r\n", "Host: \r\n", "Host: localhost\r\n X: folded\r\n", "Host: localhost\r\nAuthorization : Bearer " + testToken + "\r\n",
		} {
			back := s.raw(t, line+" HTTP/1.1\r\n"+headers+"Connection: close\r\n\r\n")
			code, _, _ := strings.Cut(strings.TrimPrefix(back, "HTTP/1.1 "), " ")
			if code == "200" || strings.Contains(back, "the status") || strings.Contains(back, "the page") || strings.Contains(back, "the feed") || strings.Contains(back, "backup") && strings.HasPrefix(code, "2") {
				t.Errorf("%s with %q:\n%s", line, headers, back)
			}
			if strings.Contains(back, "Location: //") || strings.Contains(back, "Location: http") {
				t.Errorf("%s leads elsewhere:\n%s", line, back)
			}
		}
	}
	if back := s.raw(t, "GET /v1/status HTTP/1.0\r\n\r\n"); strings.Contains(back, "200 OK") {
		t.Errorf("without a Host:\n%s", back)
	}
}

func TestNothingAfterARefusedBodyIsTakenForARequest(t *testing.T) {
	s := open(t, here, testToken, "")
	hidden := "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
	for what, text := range map[string]string{
		"in a body":           fmt.Sprintf("POST /v1/poll HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(hidden), hidden),
		"two kinds of length": "POST /v1/poll HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden,
		"two lengths":         "POST /v1/poll HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\n" + hidden,
		"an odd encoding":     "POST /v1/poll HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: xchunked\r\n\r\n" + hidden,
	} {
		back := s.raw(t, text+"GET /none HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
		if strings.Contains(back, "\r\n\r\nok\n") {
			t.Errorf("%s: a request was smuggled:\n%s", what, back)
		}
	}
}

func TestLargeResponsesAreCompressedForClientsThatAcceptIt(t *testing.T) {
	s := open(t, here, "", "")
	got := s.ask(t, "GET", "/large", "", "Accept-Encoding", "br, gzip;q=0.8")
	if got.Header.Get("Content-Encoding") != "gzip" || len(got.body) > 1000 {
		t.Errorf("%v, %d bytes", got.Header, len(got.body))
	}
	if got := s.ask(t, "GET", "/large", ""); got.Header.Get("Content-Encoding") != "" || len(got.body) != 13000 {
		t.Errorf("without a request for it: %v", got.Header)
	}
}
