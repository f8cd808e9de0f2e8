package ops

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"doorbell/poller"
)

const testToken = "0123456789abcdef-sentinel"

// site is a server over real HTTP, with a page that says what may be done.
type site struct {
	url  string
	stop func() error
	log  *logged

	feedToken string

	mu    sync.Mutex
	asked []string // verbs
}

// logged is a log that can be read while it is written.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (s *site) done(verb string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, verb)
	if strings.Contains(verb, "nobody") {
		return fmt.Errorf("%w: nobody", poller.ErrUnknownAgency)
	}
	if strings.Contains(verb, "halted") {
		return fmt.Errorf("%w: halted", poller.ErrHalted)
	}
	if strings.Contains(verb, "early") {
		return &poller.TooSoonError{AgencyID: "early", Wait: 12300 * time.Millisecond}
	}
	return nil
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
			Status:  func() (Status, error) { return Status{Version: "the status"}, nil },
			Resume:  func(a, i string) (int, error) { return 1, s.done("resume " + a + " " + i) },
			Approve: func(a string) (bool, error) { return true, s.done("approve " + a) },
			Poll: func(a, i string) (poller.PolledNow, error) {
				return poller.PolledNow{Waits: poller.WaitsPoll, Insertions: 1, Of: 2}, s.done("poll " + a + " " + i)
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

// open serves at an address until the test ends. Nothing that is logged may hold the token.
func open(t *testing.T, address, token string) *site {
	t.Helper()
	return openWith(t, address, token, "")
}

// openWith is open with a token of the feed too.
func openWith(t *testing.T, address, token, feedToken string) *site {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	s := &site{url: "http://127.0.0.1:" + fmt.Sprint(l.Addr().(*net.TCPAddr).Port), log: &logged{}, feedToken: feedToken}
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

// ask sends a request. Headers come as name, value; Host is the name it is sent to, a "-" the one it is.
func (s *site) ask(t *testing.T, method, path, body string, headers ...string) answered {
	t.Helper()
	r, err := http.NewRequest(method, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answered{response, string(text)}
}

// raw sends bytes as they are and returns all that comes back until the server hangs up.
func (s *site) raw(t *testing.T, text string) string {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
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
	asForm     = "application/x-www-form-urlencoded"
)

var withToken = []string{"Authorization", "Bearer " + testToken}

// asPassword is how a browser shows a token.
func asPassword(token string) []string {
	return []string{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte("anybody:"+token))}
}

func TestEverybodySeesHealthMetricsAndSchemas(t *testing.T) {
	for _, address := range []string{here, everywhere} {
		s := open(t, address, testToken)
		for path, want := range map[string]string{
			"/livez": "200 ok\n", "/metrics": "200 metrics", "/schemas/a.json": "200 schemas",
			"/readyz": "503 failing\nNATS: it is away\n",
		} {
			got := s.ask(t, "GET", path, "", "Host", "any.example", "Sec-Fetch-Site", "cross-site")
			if is := fmt.Sprintf("%d %s", got.StatusCode, got.body); is != want {
				t.Errorf("%s: %q, want %q", path, is, want)
			}
			if head := s.ask(t, "HEAD", path, ""); head.StatusCode != got.StatusCode || head.body != "" {
				t.Errorf("HEAD %s: %s %q", path, head.Status, head.body)
			}
		}
		got := s.ask(t, "GET", "/readyz?verbose", "")
		if want := `{"status":"failing","checks":[{"name":"store","ok":true,"live":true},{"name":"NATS","ok":false,"text":"it is away","live":false}]}`; strings.TrimSpace(got.body) != want {
			t.Errorf("readyz?verbose: %s", got.body)
		}
		if got = s.ask(t, "GET", "/livez", "", "Accept", "application/json"); strings.TrimSpace(got.body) != `{"status":"ok","checks":[{"name":"store","ok":true,"live":true}]}` {
			t.Errorf("livez as JSON: %s", got.body)
		}
	}
}

// whoMayLook are readings of the page: where the server stands, whether there is a token, and what comes with the request.
var whoMayLook = []struct {
	name    string
	address string
	token   string
	headers []string
	want    string // beginning of the answer
}{
	{"this machine", here, "", nil, "200 the page"},
	{"this machine, by name", here, "", []string{"Host", "LocalHost:8080"}, "200 the page"},
	{"this machine, IPv6", here, "", []string{"Host", "[::1]:3667"}, "200 the page"},
	{"this machine, with a token set", here, testToken, nil, "401 "},
	{"with the token", here, testToken, withToken, "200 the page"},
	{"with the token, under any name", everywhere, testToken, append([]string{"Host", "doorbell.example"}, withToken...), "200 the page"},

	{"DNS rebinding", here, "", []string{"Host", "evil.example"}, "403 "},
	{"DNS rebinding, with a token set", here, testToken, []string{"Host", "evil.example"}, "401 "},
	{"a name that begins like ours", here, "", []string{"Host", "localhost.evil.example"}, "403 "},
	{"a name that begins like our address", here, "", []string{"Host", "127.0.0.1.evil.example:3667"}, "403 "},
	{"the address of all", here, "", []string{"Host", "0.0.0.0:3667"}, "403 "},
	{"another address", here, "", []string{"Host", "192.0.2.1"}, "403 "},
	{"through a proxy", here, "", []string{"X-Forwarded-For", "192.0.2.1"}, "403 "},
	{"through a proxy, with the token", here, testToken, append([]string{"X-Forwarded-For", "192.0.2.1"}, withToken...), "200 the page"},
	{"through another proxy", here, "", []string{"Forwarded", "for=192.0.2.1"}, "403 "},
	{"all addresses", everywhere, "", nil, "403 "},
	{"all addresses, with a token set", everywhere, testToken, nil, "401 "},
	{"a wrong token", here, testToken, []string{"Authorization", "Bearer " + testToken + "x"}, "401 "},
	{"a part of the token", here, testToken, []string{"Authorization", "Bearer " + testToken[:20]}, "401 "},
	{"an empty token", here, testToken, []string{"Authorization", "Bearer "}, "401 "},
	{"an empty token where none is set", everywhere, "", []string{"Authorization", "Bearer "}, "403 "},
	{"the token as a password", everywhere, testToken, asPassword(testToken), "200 the page"},
	{"a wrong password", here, testToken, asPassword(testToken + "x"), "401 "},
	{"the token as a user", here, testToken, []string{"Authorization", "Basic " + base64.StdEncoding.EncodeToString([]byte(testToken+":"))}, "401 "},
	{"the token in another scheme", here, testToken, []string{"Authorization", "Digest " + testToken}, "401 "},
	{"two tokens", here, testToken, append(withToken, withToken...), "401 "},
	{"a part of another site's page", here, "", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"}, "403 "},
	{"a frame of another site's page", here, "", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}, "403 "},
	{"a part of a page of another port", here, "", []string{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "cors"}, "403 "},
	{"a link on another site", here, "", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, "200 the page"},
}

func TestThePageIsForThisMachineAndForWhoShowsTheToken(t *testing.T) {
	for _, tt := range whoMayLook {
		t.Run(tt.name, func(t *testing.T) {
			s := open(t, tt.address, tt.token)
			for _, path := range []string{"/", "/v1/status", "/events", "/fragment", "/debug/pprof/heap"} {
				method := "GET"
				if path == "/events" {
					method = "HEAD" // else it does not end
				}
				got := s.ask(t, method, path, "", tt.headers...)
				is, want := fmt.Sprintf("%d %s", got.StatusCode, got.body), tt.want
				if path != "/" && strings.HasPrefix(want, "200") {
					want = map[bool]string{true: "404", false: "200"}[path == "/fragment"]
				}
				if !strings.HasPrefix(is, want) {
					t.Errorf("%s: %q, want %q", path, is, want)
				}
				if !strings.HasPrefix(tt.want, "200") && strings.Contains(got.body, "the ") && strings.Contains(got.body, "status\"") {
					t.Errorf("%s shows %s", path, got.body)
				}
			}
		})
	}
}

func TestTheHolderOfTheTokenPollsResumesAndApproves(t *testing.T) {
	s := open(t, everywhere, testToken)
	for _, tt := range []struct{ path, body, want, done string }{
		{"/v1/resume", `{"agencyId":"A100","propertyReferenceId":"a#1##"}`, `200 {"ended":1}`, "resume A100 a#1##"},
		{"/v1/approve", `{"agencyId":"A100"}`, `200 {"held":true}`, "approve A100"},
		{"/v1/poll", `{"agencyId":"A100","propertyReferenceId":"a#1##"}`, `202 {"waits":"poll","insertions":1,"of":2}`, "poll A100 a#1##"},
		{"/v1/poll", `{"agencyId":"A100"}`, `202 {"waits":"poll"`, "poll A100 "},
		{"/v1/poll", `{"agencyId":"nobody"}`, `404 {"error":"`, ""},
		{"/v1/poll", `{"agencyId":"halted"}`, `409 {"error":"`, ""},
		{"/v1/poll", `{"agencyId":"early"}`, `429 {"error":"`, ""},
		{"/v1/poll", `{"agencyId":"` + strings.Repeat("x", mostBody) + `"}`, `400 {"error":"`, ""},
		{"/v1/poll", `{"agencyId":"A100","propertyReferenceId":"` + strings.Repeat("x", mostReference+1) + `"}`, `400 {"error":"`, ""},
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
	if !strings.Contains(s.log.String(), "verb=/v1/approve from=127.0.0.1") {
		t.Errorf("what was done is not logged:\n%s", s.log)
	}
}

// TestNothingElseIsDoneOrFetchedOverTCP: what the commands ask at the socket is not there, whatever is shown.
func TestNothingElseIsDoneOrFetchedOverTCP(t *testing.T) {
	s := open(t, here, testToken)
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

const testFeedToken = "fedcba9876543210-sentinel"

// TestTheFeedHasATokenThatOpensNothingElse, for every way in which tokens may be set.
func TestTheFeedHasATokenThatOpensNothingElse(t *testing.T) {
	bearer := func(token string) []string { return []string{"Authorization", "Bearer " + token} }
	for _, tt := range []struct {
		name, address, token, feed string
		headers                    []string
		wantFeed, wantStatus       int
	}{
		{"no token, this machine", here, "", "", nil, 200, 200},
		{"no token, a proxy", here, "", "", []string{"X-Forwarded-For", "192.0.2.1"}, 403, 403},
		{"no token, another name", here, "", "", []string{"Host", "evil.example"}, 403, 403},
		{"no token, everywhere", everywhere, "", "", nil, 403, 403},
		{"no token, one is shown", here, "", "", bearer(testFeedToken), 403, 403},
		{"token of the feed, none shown", here, "", testFeedToken, nil, 401, 200},
		{"token of the feed, shown", everywhere, "", testFeedToken, bearer(testFeedToken), 200, 403},
		{"token of the feed, as a password", everywhere, "", testFeedToken, asPassword(testFeedToken), 200, 403},
		{"token of the feed, a wrong one", everywhere, "", testFeedToken, bearer(testToken), 401, 403},
		{"both, none shown", here, testToken, testFeedToken, nil, 401, 401},
		{"both, that of the feed", everywhere, testToken, testFeedToken, bearer(testFeedToken), 200, 401},
		{"both, that of the page", everywhere, testToken, testFeedToken, bearer(testToken), 200, 200},
		{"both, an empty one", everywhere, testToken, testFeedToken, bearer(""), 401, 401},
		{"token of the page alone", everywhere, testToken, "", bearer(testToken), 200, 200},
		{"token of the page alone, an empty one", everywhere, testToken, "", bearer(""), 401, 401},
		{"token of the page alone, another one", everywhere, testToken, "", bearer(testFeedToken), 401, 401},
		{"another site", here, "", "", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "cors"}, 403, 403},
		{"another site, with the token", here, testToken, testFeedToken, append(bearer(testFeedToken), "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors"), 403, 401},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := openWith(t, tt.address, tt.token, tt.feed)
			if got := s.ask(t, "GET", "/v1/events?after=x", "", tt.headers...); got.StatusCode != tt.wantFeed || (got.body == "the feed") != (tt.wantFeed == 200) {
				t.Errorf("the feed: %s %s", got.Status, got.body)
			}
			for _, path := range []string{"/v1/status", "/"} {
				if got := s.ask(t, "GET", path, "", tt.headers...); got.StatusCode != tt.wantStatus {
					t.Errorf("%s: %s", path, got.Status)
				}
			}
			want := http.StatusAccepted
			if tt.token == "" || tt.wantStatus != 200 {
				want = max(tt.wantStatus, 403)
				if tt.token != "" {
					want = 401
				}
			}
			if got := s.ask(t, "POST", "/v1/poll", `{"agencyId":"A100"}`, tt.headers...); got.StatusCode != want {
				t.Errorf("a poll: %s, want %d", got.Status, want)
			}
		})
	}
}

func TestABrowserAsksItsPersonForTheToken(t *testing.T) {
	s := open(t, everywhere, testToken)
	for _, headers := range [][]string{nil, asPassword("wrong-wrong-wrong-wrong")} {
		got := s.ask(t, "GET", "/", "", append([]string{"Accept", "text/html,*/*"}, headers...)...)
		if got.StatusCode != http.StatusUnauthorized || !strings.HasPrefix(got.Header.Get("WWW-Authenticate"), "Basic ") || !strings.Contains(got.body, `{"error":"`) {
			t.Errorf("%s %v %s", got.Status, got.Header["Www-Authenticate"], got.body)
		}
	}
	s = open(t, here, "")
	if got := s.ask(t, "GET", "/", "", "Host", "evil.example"); got.StatusCode != http.StatusForbidden || got.Header.Get("WWW-Authenticate") != "" {
		t.Errorf("where there is no token: %s", got.Status)
	}
}

func TestNobodyElseMayDoAnything(t *testing.T) {
	crossSite := []string{"Sec-Fetch-Site", "cross-site"}
	for _, tt := range []struct {
		name, address, token string
		headers              []string
		want                 int
	}{
		{"this machine", here, testToken, nil, 401},
		{"this machine, no token set", here, "", nil, 403},
		{"a token where none is set", here, "", withToken, 403},
		{"an empty token where none is set", here, "", []string{"Authorization", "Bearer "}, 403},
		{"a wrong token", here, testToken, []string{"Authorization", "Bearer wrong-wrong-wrong-wrong"}, 401},
		{"another site with the token", here, testToken, append(crossSite, withToken...), 403},
		{"another origin with the token", here, testToken, append([]string{"Origin", "https://evil.example"}, withToken...), 403},
		{"no origin at all with the token", here, testToken, append([]string{"Origin", "null"}, withToken...), 403},
		{"another site in the browser of who has the token", here, testToken, append(crossSite, asPassword(testToken)...), 403},
		{"another port in that browser", here, testToken, append([]string{"Sec-Fetch-Site", "same-site"}, asPassword(testToken)...), 403},
		{"an old browser on another site", here, testToken, append([]string{"Origin", "https://evil.example"}, asPassword(testToken)...), 403},
		{"anybody", everywhere, testToken, nil, 401},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := open(t, tt.address, tt.token)
			headers := append([]string{"Content-Type", asForm}, tt.headers...)
			for _, path := range []string{"/v1/resume", "/v1/approve", "/v1/poll"} {
				if got := s.ask(t, "POST", path, `{"agencyId":"A100"}`, headers...); got.StatusCode != tt.want {
					t.Errorf("POST %s: %s, want %d", path, got.Status, tt.want)
				}
			}
			for _, path := range []string{"/v1/resume", "/v1/poll"} { // a GET, as of an image, is none
				if got := s.ask(t, "GET", path+"?agencyId=A100", "", headers...); got.StatusCode == http.StatusOK {
					t.Errorf("GET %s: %s", path, got.Status)
				}
			}
			if s.verbs() != "" {
				t.Errorf("done: %s", s.verbs())
			}
		})
	}
}

func TestWrongTokensAreLogged(t *testing.T) {
	s := open(t, here, testToken)
	s.ask(t, "GET", "/v1/status", "", "Authorization", "Bearer wrong-wrong-wrong-wrong")
	if !strings.Contains(s.log.String(), `msg="a wrong token was shown" from=127.0.0.1`) || strings.Contains(s.log.String(), "wrong-wrong") {
		t.Errorf("logged:\n%s", s.log)
	}
}

func TestEveryAnswerTellsBrowsersToBeCareful(t *testing.T) {
	s := open(t, here, testToken)
	for _, got := range []answered{
		s.ask(t, "GET", "/", ""), s.ask(t, "GET", "/livez", ""), s.ask(t, "GET", "/metrics", ""), s.ask(t, "GET", "/nothing", ""),
		s.ask(t, "POST", "/v1/resume", ""), s.ask(t, "DELETE", "/", ""), s.ask(t, "GET", "/", "", "Host", "evil.example", "Accept", "text/html"),
	} {
		h, path := got.Header, got.Request.URL.Path
		for name, want := range map[string]string{
			"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY", "Referrer-Policy": "same-origin", "Cache-Control": "no-store",
			"Cross-Origin-Resource-Policy": "same-origin",
		} {
			if h.Get(name) != want {
				t.Errorf("%s: %s is %q", path, name, h.Get(name))
			}
		}
		policy := h.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'self'", "script-src 'self'"} {
			if !strings.Contains(policy, want) {
				t.Errorf("%s: policy %q lacks %s", path, policy, want)
			}
		}
		if strings.Contains(policy, "unsafe") || h.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%s: %v", path, h)
		}
	}
}

func TestTricksWithPathsAndHeadersShowNothing(t *testing.T) {
	s := open(t, everywhere, testToken)
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

func TestWhatFollowsARefusedBodyIsNoRequest(t *testing.T) {
	s := open(t, here, testToken)
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

func TestWhatIsSentComesBackInNoHeader(t *testing.T) {
	s := open(t, here, testToken)
	const odd = "nobody\r\nSet-Cookie: x=1\r\n\r\n<script>alert(1)</script>"
	body, err := json.Marshal(AgencyRequest{AgencyID: odd})
	if err != nil {
		t.Fatal(err)
	}
	got := s.ask(t, "POST", "/v1/poll", string(body), append([]string{"Accept", "text/html"}, withToken...)...)
	if got.StatusCode != http.StatusNotFound || len(got.Cookies()) > 0 || strings.Contains(got.body, "<script") || got.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%s %v\n%s", got.Status, got.Header, got.body)
	}
}

func TestLargeAnswersAreCompressedForWhoTakesThat(t *testing.T) {
	s := open(t, here, "")
	got := s.ask(t, "GET", "/large", "", "Accept-Encoding", "br, gzip;q=0.8")
	z, err := gzip.NewReader(strings.NewReader(got.body))
	if err != nil || got.Header.Get("Content-Encoding") != "gzip" || got.Header.Get("Vary") != "Accept-Encoding" {
		t.Fatalf("%v %v", err, got.Header)
	}
	text, err := io.ReadAll(z)
	if err != nil || string(text) != strings.Repeat("all the same ", 1000) || got.Header.Get("Content-Type") != "text/html" {
		t.Errorf("%v, %d bytes of %s", err, len(text), got.Header.Get("Content-Type"))
	}
	for what, headers := range map[string][]string{"who does not say": nil, "who says no": {"Accept-Encoding", "gzip;q=0, br"}} {
		if got := s.ask(t, "GET", "/large", "", headers...); got.Header.Get("Content-Encoding") != "" || len(got.body) != 13000 {
			t.Errorf("%s: %v", what, got.Header)
		}
	}
	if got := s.ask(t, "GET", "/", "", "Accept-Encoding", "gzip"); got.Header.Get("Content-Encoding") != "" || got.ContentLength != int64(len(got.body)) {
		t.Errorf("a small answer: %v", got.Header)
	}
	if got := s.ask(t, "HEAD", "/large", "", "Accept-Encoding", "gzip"); got.body != "" || got.Header.Get("Content-Type") != "text/html" {
		t.Errorf("HEAD: %v", got.Header)
	}
}

func TestConnectionsAreBounded(t *testing.T) {
	s := open(t, everywhere, "")
	var held []net.Conn
	for range mostConnections {
		c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		held = append(held, c)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		if answer, err := http.Get(s.url + "/livez"); err != nil || answer.Body.Close() != nil {
			t.Error(err)
		}
	}()
	select {
	case <-served:
		t.Error("one more than may be was served")
	case <-time.After(50 * time.Millisecond):
	}
	held[0].Close()
	<-served
}

func TestLiveStreamsEndWithTheServer(t *testing.T) {
	s := open(t, here, "")
	response, err := http.Get(s.url + "/events")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	r := bufio.NewReader(response.Body)
	if line, err := r.ReadString('\n'); err != nil || line != "data: 0\n" {
		t.Fatalf("%q %v", line, err)
	}
	if err := s.stop(); err != nil {
		t.Error(err)
	}
	io.Copy(io.Discard, r) // it has ended
}
