package ops

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
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
			Poll:    func(a string) (poller.PolledNow, error) { return poller.PolledNow{}, s.done("poll " + a) },
			Backup: func(w io.Writer, sized func(int64)) error {
				sized(6)
				_, err := io.WriteString(w, "backup")
				return err
			},
		},
		Token: token, Log: slog.New(slog.NewTextHandler(s.log, nil)),
	}
}

// open serves at an address until the test ends. Nothing that is logged may hold the token.
func open(t *testing.T, address, token string) *site {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	s := &site{url: "http://127.0.0.1:" + fmt.Sprint(l.Addr().(*net.TCPAddr).Port), log: &logged{}}
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
			for _, path := range []string{"/", "/status", "/events", "/fragment"} {
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

func TestTheOperatorMayDoWhatTheCommandsDo(t *testing.T) {
	s := open(t, everywhere, testToken)
	for path, want := range map[string]string{"/resume": `{"ended":1}`, "/approve": `{"held":true}`, "/poll": `{"insertions":0,"of":0}`} {
		if got := s.ask(t, "POST", path, `{"agencyId":"A100"}`, withToken...); got.StatusCode != http.StatusOK || strings.TrimSpace(got.body) != want {
			t.Errorf("%s: %s %s", path, got.Status, got.body)
		}
	}
	if got := s.ask(t, "GET", "/backup", "", withToken...); got.body != "backup" {
		t.Errorf("backup: %s %s", got.Status, got.body)
	}
	if got := s.ask(t, "POST", "/resume", `{"agencyId":"nobody"}`, withToken...); got.StatusCode != http.StatusNotFound || !strings.Contains(got.body, `"error"`) {
		t.Errorf("an agency that is none: %s %s", got.Status, got.body)
	}
	if got := s.ask(t, "POST", "/nothing", "{}", withToken...); got.StatusCode != http.StatusNotFound {
		t.Errorf("a verb that is none: %s", got.Status)
	}
	if got := s.ask(t, "POST", "/resume", `{"agencyId":"`+strings.Repeat("x", 2<<20)+`"}`, withToken...); got.StatusCode != http.StatusBadRequest {
		t.Errorf("a body without end: %s", got.Status)
	}
	if !strings.Contains(s.log.String(), "verb=/approve from=127.0.0.1") {
		t.Errorf("what was done is not logged:\n%s", s.log)
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
			for _, path := range []string{"/resume", "/approve", "/poll", "/events", "/compare", "/find", "/export", "/forget", "/actions/resume", "/actions/approve", "/actions/poll"} {
				if got := s.ask(t, "POST", path, "agency=A100", headers...); got.StatusCode != tt.want {
					t.Errorf("POST %s: %s, want %d", path, got.Status, tt.want)
				}
			}
			for _, path := range []string{"/actions/resume", "/resume"} { // a GET, as of an image, is none
				if got := s.ask(t, "GET", path+"?agency=A100", "", headers...); got.StatusCode == http.StatusOK {
					t.Errorf("GET %s: %s", path, got.Status)
				}
			}
			if s.verbs() != "" {
				t.Errorf("done: %s", s.verbs())
			}
		})
	}
}

func TestABrowserAsksItsPersonForTheToken(t *testing.T) {
	s := open(t, everywhere, testToken)
	for _, path := range []string{"/", "/status", "/backup"} {
		got := s.ask(t, "GET", path, "", "Accept", "text/html,*/*")
		if got.StatusCode != http.StatusUnauthorized || !strings.HasPrefix(got.Header.Get("WWW-Authenticate"), "Basic ") || !strings.Contains(got.body, "DOORBELL_HTTP_TOKEN") {
			t.Errorf("%s: %s %v %s", path, got.Status, got.Header["Www-Authenticate"], got.body)
		}
	}
	wrong := append([]string{"Accept", "text/html,*/*"}, asPassword("wrong-wrong-wrong-wrong")...)
	if got := s.ask(t, "GET", "/", "", wrong...); got.StatusCode != http.StatusUnauthorized || !strings.HasPrefix(got.Header.Get("Content-Type"), "text/plain") ||
		!strings.Contains(got.body, "password, which is the value of DOORBELL_HTTP_TOKEN") {
		t.Errorf("with a wrong token: %s %s", got.Status, got.body)
	}
	if got := s.ask(t, "GET", "/status", ""); !strings.Contains(got.body, `{"error":"this needs the token`) {
		t.Errorf("a program is told %s", got.body)
	}
	s = open(t, everywhere, "")
	if got := s.ask(t, "GET", "/", ""); got.StatusCode != http.StatusForbidden || got.Header.Get("WWW-Authenticate") != "" {
		t.Errorf("where there is no token: %s", got.Status)
	}
}

func TestNobodyElseGetsACopyOfTheStore(t *testing.T) {
	for _, address := range []string{here, everywhere} {
		s := open(t, address, testToken)
		if got := s.ask(t, "GET", "/backup", ""); got.StatusCode != http.StatusUnauthorized {
			t.Errorf("backup without the token: %s", got.Status)
		}
		for _, dest := range []string{"image", "document"} { // a link on another site is no wish for a copy
			link := append([]string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", dest}, asPassword(testToken)...)
			if got := s.ask(t, "GET", "/backup", "", link...); got.StatusCode != http.StatusForbidden {
				t.Errorf("backup for another site: %s", got.Status)
			}
		}
	}
}

func TestAFormOfOurPageActs(t *testing.T) {
	const host = "doorbell.example:8080"
	s := open(t, everywhere, testToken)
	act := func(path, body string, headers ...string) answered {
		headers = append(append([]string{"Content-Type", asForm, "Host", host}, headers...), asPassword(testToken)...)
		return s.ask(t, "POST", path, body, headers...)
	}
	for path, want := range map[string][2]string{
		"resume": {"resume A100 a#1##", "resumed"}, "approve": {"approve A100", "approved"}, "poll": {"poll A100", "polled"},
	} {
		got := act("/actions/"+path, "agency=A100&insertion=a%231%23%23", "Origin", "http://"+host)
		if got.StatusCode != http.StatusSeeOther || got.Header.Get("Location") != "../?agency=A100&done="+want[1] || !strings.Contains(s.verbs(), want[0]) {
			t.Errorf("%s: %s %s; done: %s", path, got.Status, got.body, s.verbs())
		}
	}
	before := s.verbs()
	for what, got := range map[string]answered{
		"another site":         act("/actions/poll", "agency=A100", "Sec-Fetch-Site", "cross-site"),
		"another port":         act("/actions/poll", "agency=A100", "Origin", "http://doorbell.example:9090"),
		"an origin of nothing": act("/actions/poll", "agency=A100", "Origin", "null"),
		"JSON":                 s.ask(t, "POST", "/actions/poll", `{"agency":"A100"}`, append([]string{"Content-Type", "application/json"}, withToken...)...),
		"text, as of a form":   s.ask(t, "POST", "/actions/poll", "agency=A100", append([]string{"Content-Type", "text/plain"}, withToken...)...),
		"a long form":          act("/actions/poll", "agency=A100&x="+strings.Repeat("x", mostForm)),
		"a form of nobody":     act("/actions/poll", "agency="),
	} {
		if got.StatusCode < 400 {
			t.Errorf("%s: %s", what, got.Status)
		}
	}
	if s.verbs() != before {
		t.Errorf("done: %s", s.verbs())
	}
	got := act("/actions/poll", "agency=nobody", "Accept", "text/html")
	if got.StatusCode != http.StatusNotFound || !strings.Contains(got.body, "nobody") {
		t.Errorf("a person is told: %s %s", got.Status, got.body)
	}
}

func TestWrongTokensAreLogged(t *testing.T) {
	s := open(t, here, testToken)
	s.ask(t, "GET", "/status", "", "Authorization", "Bearer wrong-wrong-wrong-wrong")
	if !strings.Contains(s.log.String(), `msg="a wrong token was shown" from=127.0.0.1`) || strings.Contains(s.log.String(), "wrong-wrong") {
		t.Errorf("logged:\n%s", s.log)
	}
}

func TestEveryAnswerTellsBrowsersToBeCareful(t *testing.T) {
	s := open(t, here, testToken)
	for _, got := range []answered{
		s.ask(t, "GET", "/", ""), s.ask(t, "GET", "/livez", ""), s.ask(t, "GET", "/metrics", ""), s.ask(t, "GET", "/nothing", ""),
		s.ask(t, "POST", "/resume", ""), s.ask(t, "DELETE", "/", ""), s.ask(t, "GET", "/", "", "Host", "evil.example", "Accept", "text/html"),
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
		"GET //status", "GET /./status", "GET /livez/../status", "GET /metrics/..%2fstatus", "GET /%73tatus", "GET /schemas/../status",
		"GET /schemas/%2e%2e/status", "GET /schemas/..;/status", "GET /STATUS", "GET /status/", "GET /status?/livez", "GET /status;/livez",
		"GET http://127.0.0.1/status", "GET http://x@localhost/status", "GET \\status", "GET /livez%00/../status", "HEAD /status", "GET *",
		"OPTIONS *", "TRACE /status", "CONNECT /status", "CONNECT localhost:80", "get /status", "PROPFIND /status", "GET /backup", "GET /backup/",
		"GET /events", "GET /events/", "GET /actions/poll",
	} {
		for _, headers := range []string{
			"Host: localhost\r\n", "Host: localhost\r\nX-Original-Url: /livez\r\nX-Http-Method-Override: GET\r\n",
			"Host: localhost\r\nHost: localhost\r\n", "Host: \r\n", "Host: localhost\r\n X: folded\r\n", "Host: localhost\r\nAuthorization : Bearer " + testToken + "\r\n",
		} {
			back := s.raw(t, line+" HTTP/1.1\r\n"+headers+"Connection: close\r\n\r\n")
			code, _, _ := strings.Cut(strings.TrimPrefix(back, "HTTP/1.1 "), " ")
			if code == "200" || strings.Contains(back, "the status") || strings.Contains(back, "the page") || strings.Contains(back, "backup") && strings.HasPrefix(code, "2") {
				t.Errorf("%s with %q:\n%s", line, headers, back)
			}
			if strings.Contains(back, "Location: //") || strings.Contains(back, "Location: http") {
				t.Errorf("%s leads elsewhere:\n%s", line, back)
			}
		}
	}
	if back := s.raw(t, "GET /status HTTP/1.0\r\n\r\n"); strings.Contains(back, "200 OK") {
		t.Errorf("without a Host:\n%s", back)
	}
}

func TestWhatFollowsARefusedBodyIsNoRequest(t *testing.T) {
	s := open(t, here, testToken)
	hidden := "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n"
	for what, text := range map[string]string{
		"in a body":           fmt.Sprintf("POST /poll HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%s", len(hidden), hidden),
		"two kinds of length": "POST /poll HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + hidden,
		"two lengths":         "POST /poll HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\nContent-Length: 5\r\n\r\n" + hidden,
		"an odd encoding":     "POST /poll HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: xchunked\r\n\r\n" + hidden,
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
	for _, accept := range []string{"text/html", "*/*"} {
		got := s.ask(t, "POST", "/actions/poll", url.Values{"agency": {odd}}.Encode(), append([]string{"Content-Type", asForm, "Accept", accept}, withToken...)...)
		if got.StatusCode != http.StatusNotFound || len(got.Cookies()) > 0 || strings.Contains(got.body, "<script") {
			t.Errorf("%s %v\n%s", got.Status, got.Header, got.body)
		}
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
