package listings

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// script answers the requests on each connection one after the other, byte by byte as it stands there, and hangs up.
type script struct {
	net.Listener
	scheme        string
	opened, seen  atomic.Int32
	handled       sync.WaitGroup
	hung, hanging chan struct{} // one for each connection that was hung up, and each answer that hangs
	more          chan struct{} // lets the rest of an answer come
}

// play starts a server that answers request n of a connection with answers[n]; after what hangs, it stays.
func play(t *testing.T, config *tls.Config, answers ...string) *script {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &script{Listener: l, scheme: "http", hung: make(chan struct{}, 100), hanging: make(chan struct{}, 100), more: make(chan struct{}, 1)}
	if config != nil {
		s.Listener, s.scheme = tls.NewListener(l, config), "https"
	}
	ended := make(chan struct{})
	t.Cleanup(func() {
		close(ended)
		l.Close()
		s.handled.Wait()
	})
	s.handled.Go(func() {
		for {
			c, err := s.Accept()
			if err != nil {
				return
			}
			s.opened.Add(1)
			s.handled.Go(func() { s.handle(c, ended, answers) })
		}
	})
	return s
}

const (
	hangs = "\x00hangs" // the end of an answer after which the server neither hangs up nor says more
	later = "\x00later" // what follows is sent when the test wants it
)

// certified is how a server speaks TLS, and who is to be trusted for it.
func certified(t *testing.T) (*tls.Config, *x509.CertPool) {
	t.Helper()
	issued := httptest.NewTLSServer(nil)
	defer issued.Close()
	roots := x509.NewCertPool()
	roots.AddCert(issued.Certificate())
	return &tls.Config{Certificates: issued.TLS.Certificates, DynamicRecordSizingDisabled: true}, roots
}

func trusting(roots *x509.CertPool) func(*Options) {
	return func(o *Options) {
		under := NewTransport(TransportOptions{})
		under.TLSClientConfig.RootCAs = roots
		o.Transport = under
	}
}

func (s *script) handle(c net.Conn, ended chan struct{}, answers []string) {
	defer func() {
		c.Close()
		s.hung <- struct{}{}
	}()
	in := bufio.NewReader(c)
	for _, a := range answers {
		if _, err := http.ReadRequest(in); err != nil {
			return
		}
		s.seen.Add(1)
		a, stays := strings.CutSuffix(a, hangs)
		first, rest, waits := strings.Cut(a, later)
		if _, err := io.WriteString(c, first); err != nil {
			return
		}
		if waits {
			select {
			case <-s.more:
			case <-ended:
			}
			_, _ = io.WriteString(c, rest)
		}
		if stays {
			s.hanging <- struct{}{}
			<-ended
		}
	}
}

func (s *script) client(t *testing.T, change ...func(*Options)) *Client {
	t.Helper()
	return newClient(t, append([]func(*Options){func(o *Options) { o.BaseURL = s.scheme + "://" + s.Addr().String() }}, change...)...)
}

const good = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]"

// TestAnswersOfEveryFormAreRead also says how many connections two requests take.
func TestAnswersOfEveryFormAreRead(t *testing.T) {
	for name, row := range map[string]struct {
		answer string
		opened int32
	}{
		"length":                   {good, 1},
		"interim answers":          {"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n" + good, 1},
		"chunked":                  {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n[\r\n1;x=y\r\n]\r\n0\r\n\r\n", 1},
		"chunked with a trailer":   {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n2\r\n[]\r\n0\r\nX: y\r\n\r\n", 1},
		"chunked and a length":     {"HTTP/1.1 200 OK\r\nContent-Length: 7\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n[]\r\n0\r\n\r\n", 1},
		"closed by the server":     {"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n[]", 2},
		"old protocol":             {"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n[]", 2},
		"line feeds alone":         {"HTTP/1.1 200 OK\nContent-Length: 2\n\n[]", 1},
		"large header":             {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("y", 60<<10) + "\r\nContent-Length: 2\r\n\r\n[]", 1},
		"the length twice, agreed": {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n[]", 1},
		"the length with zeros":    {"HTTP/1.1 200 OK\r\nContent-Length: 0000000000000000000000002\r\n\r\n[]", 1},
		"a folded line":            {"HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 2\r\n\r\n[]", 1},
		"spaces around values":     {"HTTP/1.1 200 OK\r\ncontent-length:\t2 \r\nVia: a\r\nvia: b\r\n\r\n[]", 1},
		"text that is not ASCII":   {"HTTP/1.1 200 OK\r\nX: ü\r\nContent-Length: 2\r\n\r\n[]", 1},
		"no reason":                {"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\n[]", 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { // net/http gives up a connection where 50 ms pass before the request counts as written
				var seen, opened atomic.Int32
				c := newClient(t, func(o *Options) {
					o.BaseURL = "http://localhost"
					o.Transport = NewTransport(TransportOptions{Dial: piped(t, func(c net.Conn) {
						opened.Add(1)
						for err := error(nil); err == nil; _, err = c.Read(make([]byte, 8<<10)) {
							seen.Add(1)
							_, _ = io.WriteString(c, row.answer)
						}
					})})
				})
				for range 2 {
					if page, err := c.insertions(t); err != nil || page.Path != "" || !page.Found {
						t.Fatalf("%+v, %v", page, err)
					}
				}
				if seen.Load() != 2 || opened.Load() != row.opened {
					t.Errorf("%d requests over %d connections", seen.Load(), opened.Load())
				}
			})
		})
	}
}

// TestWhatNobodyAskedForIsNotTakenForTheNextAnswer is about what stands behind an answer. net/http looks at it as soon as
// nobody has a request under way, and gives the connection up.
func TestWhatNobodyAskedForIsNotTakenForTheNextAnswer(t *testing.T) {
	log.SetOutput(io.Discard) // net/http says there what it has found
	defer log.SetOutput(os.Stderr)
	config, roots := certified(t)
	body := "[" + strings.Repeat(" ", 9_000) + "]"
	long := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	const forbidden = "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"
	for name, answer := range map[string]string{
		"a whole answer":     good + forbidden,
		"more than was told": good + "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}",
		"behind chunks":      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n[]\r\n0\r\n\r\n" + forbidden,
		"behind a 304":       "HTTP/1.1 304 Not Modified\r\nContent-Length: 7\r\n\r\n" + forbidden,
		"behind a 204":       "HTTP/1.1 204 No Content\r\nContent-Length: 2\r\n\r\n[]",
		"in one TLS record":  long + forbidden,
		"later":              good + later + forbidden,
	} {
		for _, over := range []*tls.Config{nil, config} {
			s := play(t, over, answer, answer)
			c := s.client(t, trusting(roots))
			_, first := c.insertions(t)
			s.more <- struct{}{}
			<-s.hung
			_, second := c.insertions(t)
			if fmt.Sprint(first) != fmt.Sprint(second) || is[*TransportError](first) {
				t.Errorf("%s: %v, then %v", name, first, second)
			}
			if s.opened.Load() != 2 || s.seen.Load() != 2 {
				t.Errorf("%s: %d requests over %d connections", name, s.seen.Load(), s.opened.Load())
			}
		}
	}
}

func TestAnAnswerWithoutALengthEndsWithTheConnection(t *testing.T) {
	c := play(t, nil, "HTTP/1.1 200 OK\r\n\r\n[]").client(t)
	if page, err := c.insertions(t); err != nil || !page.Found {
		t.Errorf("%+v, %v", page, err)
	}
}

func TestWhatIsNoAnswerIsAReadErrorAndNotAskedAgain(t *testing.T) {
	for name, answer := range map[string]string{
		"hangs up":              "",
		"header too long":       "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("y", 70<<10) + "\r\nContent-Length: 2\r\n\r\n[]",
		"interims without end":  strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 5000) + good,
		"a line without end":    "HTTP/1.1 200 " + strings.Repeat("y", 1<<20),
		"two lengths":           "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n[]",
		"length and a sign":     "HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\n[]",
		"a negative length":     "HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\n[]",
		"a length in hex":       "HTTP/1.1 200 OK\r\nContent-Length: 0x2\r\n\r\n[]",
		"a length too long":     "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n[]",
		"an empty length":       "HTTP/1.1 200 OK\r\nContent-Length:\r\n\r\n[]",
		"NUL in a name":         "HTTP/1.1 200 OK\r\nX\x00: a\r\nContent-Length: 2\r\n\r\n[]",
		"NUL in a value":        "HTTP/1.1 200 OK\r\nX: \x00\r\nContent-Length: 2\r\n\r\n[]",
		"a line without colon":  "HTTP/1.1 200 OK\r\nX\r\nContent-Length: 2\r\n\r\n[]",
		"a line without name":   "HTTP/1.1 200 OK\r\n: a\r\nContent-Length: 2\r\n\r\n[]",
		"a fold before a name":  "HTTP/1.1 200 OK\r\n X: a\r\nContent-Length: 2\r\n\r\n[]",
		"a length in a line":    "HTTP/1.1 200 OK\r\nX: a\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n[]",
		"small letters":         "http/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]",
		"a status of four":      "HTTP/1.1 2000 OK\r\nContent-Length: 2\r\n\r\n[]",
		"no status":             "HTTP/1.1 \r\n\r\n",
		"nothing in lines":      "\r\n\r\n",
		"unknown coding":        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\n[]\r\n0\r\n\r\n",
		"a chunk too long":      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffffffff\r\n[]",
		"a negative chunk":      "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-2\r\n[]\r\n0\r\n\r\n",
		"another protocol":      "SSH-2.0-OpenSSH_9.9\r\n",
		"frames":                "\x00\x00\x12\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x64",
		"a status of two":       "HTTP/1.1 20 OK\r\nContent-Length: 2\r\n\r\n[]",
		"ends within the chunk": "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n[",
	} {
		t.Run(name, func(t *testing.T) {
			s := play(t, nil, answer)
			_, err := s.client(t).insertions(t)
			var broken *TransportError
			if !errors.As(err, &broken) || broken.Stage != StageRead {
				t.Errorf("%T: %v", err, err)
			}
			if s.seen.Load() != 1 {
				t.Errorf("asked %d times", s.seen.Load())
			}
		})
	}
}

func TestAConnectionThatHungUpIsNotAskedAtAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		c := newClient(t, func(o *Options) {
			o.BaseURL = "http://localhost"
			o.Transport = NewTransport(TransportOptions{Dial: piped(t, func(c net.Conn) { _, _ = io.WriteString(c, good) })})
		})
		counted := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { asked++ }})
		for range 5 {
			if _, err := c.Insertions(counted, testKey, "A100", InsertionsQuery{}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if asked != 5 {
			t.Errorf("%d attempts", asked)
		}
	})
}

func TestOnceAByteHasComeNothingIsAskedAgain(t *testing.T) {
	s := play(t, nil, good, "H")
	c := s.client(t)
	_, first := c.insertions(t)
	_, second := c.insertions(t)
	if first != nil || !is[*TransportError](second) || s.seen.Load() != 2 {
		t.Errorf("%v, %v after %d requests", first, second, s.seen.Load())
	}
}

func TestANewConnectionThatHangsUpIsTheEnd(t *testing.T) {
	s := play(t, nil, "")
	if _, err := s.client(t).insertions(t); !is[*TransportError](err) || s.seen.Load() != 1 {
		t.Errorf("%v after %d requests", err, s.seen.Load())
	}
}

func TestABodyThatIsNotReadWholeCostsTheConnection(t *testing.T) {
	s := play(t, nil, "HTTP/1.1 500 Oh\r\nContent-Length: 100000\r\n\r\n"+strings.Repeat(" ", 100_000), good)
	c := s.client(t)
	if _, err := c.insertions(t); !is[*StatusError](err) {
		t.Fatal(err)
	}
	if _, err := c.insertions(t); !is[*StatusError](err) || s.opened.Load() != 2 {
		t.Errorf("%v over %d connections", err, s.opened.Load())
	}
}

func TestACancelBreaksARequestAtOnceWhereverItIs(t *testing.T) {
	for name, answers := range map[string][]string{
		"before the answer":       {hangs},
		"within the header":       {"HTTP/1.1 200 OK\r\nContent-" + hangs},
		"within the body":         {"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n[ " + hangs},
		"within a chunk":          {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n[ " + hangs},
		"on one that was kept":    {good, hangs},
		"in a body that was kept": {good, "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n[ " + hangs},
	} {
		t.Run(name, func(t *testing.T) {
			s := play(t, nil, answers...)
			c := s.client(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			for range len(answers) - 1 {
				if _, err := c.Insertions(ctx, testKey, "A100", InsertionsQuery{}); err != nil {
					t.Fatal(err)
				}
			}
			go func() {
				<-s.hanging
				cancel()
			}()
			began := time.Now()
			_, err := c.Insertions(ctx, testKey, "A100", InsertionsQuery{})
			var broken *TransportError
			if !errors.As(err, &broken) || broken.Stage != StageCanceled || time.Since(began) > 10*time.Second {
				t.Errorf("%T: %v after %v", err, err, time.Since(began))
			}
		})
	}
}

func TestACancelOfOneRequestBreaksNoOther(t *testing.T) {
	s := play(t, nil, good, good, good)
	c := s.client(t)
	for range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		if _, err := c.Insertions(ctx, testKey, "A100", InsertionsQuery{}); err != nil {
			t.Fatal(err)
		}
		cancel()
	}
	if s.opened.Load() != 1 {
		t.Errorf("%d connections", s.opened.Load())
	}
}

func TestConnectingHasItsOwnLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, func(o *Options) {
			o.BaseURL = "http://localhost"
			o.Transport = NewTransport(TransportOptions{Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
				<-ctx.Done()
				return nil, &net.OpError{Op: "dial", Err: ctx.Err()}
			}})
		})
		began := time.Now()
		_, err := c.insertions(t)
		var broken *TransportError
		if !errors.As(err, &broken) || broken.Stage != StageDial || time.Since(began) != connectWithin {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

func TestTheHeaderHasItsOwnLimitAndTheBodyTheRest(t *testing.T) {
	for _, row := range []struct {
		header, body, ends time.Duration
		good               bool
	}{
		{26 * time.Second, 3 * time.Second, 29 * time.Second, true},
		{29_800 * time.Millisecond, 0, 29_500 * time.Millisecond, false},
		{19 * time.Second, 12 * time.Second, 30 * time.Second, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			c := newClient(t, func(o *Options) {
				o.BaseURL = "http://localhost"
				o.Transport = NewTransport(TransportOptions{Dial: piped(t, func(c net.Conn) {
					time.Sleep(row.header)
					_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[")
					time.Sleep(row.body)
					_, _ = io.WriteString(c, "]")
				})})
			})
			began := time.Now()
			_, err := c.insertions(t)
			var broken *TransportError
			if took := time.Since(began); (err == nil) != row.good || took != row.ends {
				t.Errorf("%v after %v", err, took)
			}
			if !row.good && (!errors.As(err, &broken) || broken.Stage != StageTimeout) {
				t.Errorf("%T: %v", err, err)
			}
			time.Sleep(time.Minute)
		})
	}
}

// piped dials pipes, on each of which one request is answered.
func piped(t *testing.T, answer func(net.Conn)) func(context.Context, string, string) (net.Conn, error) {
	var answering sync.WaitGroup
	t.Cleanup(answering.Wait)
	return func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		answering.Go(func() {
			defer theirs.Close()
			if _, err := theirs.Read(make([]byte, 8<<10)); err == nil {
				answer(theirs)
			}
		})
		return ours, nil
	}
}

func TestIdleConnectionsAreClosedInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gone time.Time
		c := newClient(t, func(o *Options) {
			o.BaseURL = "http://localhost"
			o.Transport = NewTransport(TransportOptions{Dial: piped(t, func(c net.Conn) {
				_, _ = io.WriteString(c, good)
				_, _ = c.Read(make([]byte, 1))
				gone = time.Now()
			})})
		})
		began := time.Now()
		if _, err := c.insertions(t); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if idle := gone.Sub(began); idle != 20*time.Second {
			t.Errorf("closed after %v", idle)
		}
	})
}

func TestNoMoreThanSoManyAreUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var most, now atomic.Int32
		c := newClient(t, func(o *Options) {
			o.BaseURL, o.Timeout = "http://localhost", time.Hour
			o.Transport = NewTransport(TransportOptions{Timeout: time.Hour, Dial: piped(t, func(c net.Conn) {
				n := now.Add(1)
				most.Store(max(most.Load(), n))
				time.Sleep(time.Second)
				now.Add(-1)
				_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n[]")
			})})
		})
		var all sync.WaitGroup
		for range 3 * mostConnections {
			all.Go(func() {
				if _, err := c.insertions(t); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if most.Load() != mostConnections {
			t.Errorf("%d at once", most.Load())
		}
	})
}

func TestARefusedHandshakeIsToldApartFromABrokenAnswer(t *testing.T) {
	config, roots := certified(t)
	another, guests := config.Clone(), config.Clone()
	another.NextProtos = []string{"another"}
	guests.ClientAuth, guests.MaxVersion = tls.RequireAnyClientCert, tls.VersionTLS12
	for name, server := range map[string]*tls.Config{"another protocol": another, "wants a certificate": guests} {
		_, err := play(t, server, good).client(t, trusting(roots)).insertions(t)
		var broken *TransportError
		if !errors.As(err, &broken) || broken.Stage != StageTLS || !errors.Is(err, errHandshake) {
			t.Errorf("%s: %T: %v", name, err, err)
		}
	}
	cut := play(t, config, good, "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n[")
	c := cut.client(t, trusting(roots))
	_, first := c.insertions(t)
	_, second := c.insertions(t)
	var broken *TransportError
	if first != nil || !errors.As(second, &broken) || broken.Stage != StageRead || cut.opened.Load() != 1 {
		t.Errorf("%v, %v over %d connections", first, second, cut.opened.Load())
	}
}

// connecting is a proxy that takes a password, and connects to one place whoever is asked for. It counts what it is asked.
func connecting(t *testing.T, to string, asked *atomic.Int32) *url.URL {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.Method != http.MethodConnect || r.Host != "api.example:443" || r.Header.Get("Authorization") != "" {
			t.Errorf("the proxy is asked %s %s", r.Method, r.Host)
		}
		if r.Header.Get("Proxy-Authorization") != "Basic "+base64.StdEncoding.EncodeToString([]byte("user:SENTINEL")) {
			w.Header().Set("Proxy-Authenticate", "Basic")
			http.Error(w, person, http.StatusForbidden)
			return
		}
		there, err := net.Dial("tcp", to)
		if err != nil {
			http.Error(w, person, http.StatusBadGateway)
			return
		}
		here, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = io.WriteString(here, "HTTP/1.1 200 Connection established\r\n\r\n")
		go func() {
			_, _ = io.Copy(there, here)
			there.Close()
		}()
		_, _ = io.Copy(here, there)
		here.Close()
	}))
	t.Cleanup(server.Close)
	u, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestAProxyConnectsAndItsPasswordIsNotTold(t *testing.T) {
	config, roots := certified(t)
	config.NextProtos = []string{"h2", "http/1.1"}
	server := httptest.NewUnstartedServer(body("[]"))
	server.TLS, server.EnableHTTP2 = config, true
	server.StartTLS()
	defer server.Close()
	gone := httptest.NewServer(nil)
	gone.Close()
	for _, row := range []struct {
		name, to, password string
		stage              string // "": it is answered
		asked              int32
	}{
		{"through it", server.Listener.Addr().String(), "SENTINEL", "", 1},
		{"refused", server.Listener.Addr().String(), "SENTINEL-wrong", StageDial, 2},
		{"the API is away", gone.Listener.Addr().String(), "SENTINEL", StageDial, 2},
		{"the proxy is away", "", "SENTINEL", StageRefused, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			var asked atomic.Int32
			via := connecting(t, row.to, &asked)
			if row.to == "" {
				via.Host = gone.Listener.Addr().String()
			}
			via.User = url.UserPassword("user", row.password)
			c := newClient(t, trusting(roots), func(o *Options) {
				o.BaseURL = "https://api.example"
				under := o.Transport.(*http.Transport)
				under.Proxy = http.ProxyURL(via)
				under.TLSClientConfig.ServerName = "example.com" // of the certificate
			})
			for range 2 {
				_, err := c.insertions(t)
				var broken *TransportError
				if errors.As(err, &broken) != (row.stage != "") || broken != nil && broken.Stage != row.stage {
					t.Errorf("%T: %v", err, err)
				}
				assertNoSentinel(t, err)
			}
			if asked.Load() != row.asked {
				t.Errorf("the proxy is asked %d times", asked.Load())
			}
		})
	}
}

func TestAHandshakeWithoutEndEndsInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, func(o *Options) {
			o.BaseURL = "https://localhost"
			o.Transport = NewTransport(TransportOptions{Dial: piped(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })})
		})
		began := time.Now()
		_, err := c.insertions(t)
		var broken *TransportError
		if !errors.As(err, &broken) || broken.Stage != StageTimeout || time.Since(began) != connectWithin {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}
