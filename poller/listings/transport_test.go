package listings

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
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
	opened, seen  atomic.Int32
	handled       sync.WaitGroup
	hung, hanging chan struct{} // one for each connection that was hung up, and each answer that hangs
}

// play starts a server that answers request n of a connection with answers[n]; after what hangs, it stays.
func play(t *testing.T, config *tls.Config, answers ...string) *script {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &script{Listener: l, hung: make(chan struct{}, 100), hanging: make(chan struct{}, 100)}
	if config != nil {
		s.Listener = tls.NewListener(l, config)
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

// hangs is the end of an answer after which the server neither hangs up nor says more.
const hangs = "\x00hangs"

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
		if _, err := io.WriteString(c, a); err != nil {
			return
		}
		if stays {
			s.hanging <- struct{}{}
			<-ended
		}
	}
}

func (s *script) client(t *testing.T, change ...func(*Options)) *Client {
	t.Helper()
	return newClient(t, append([]func(*Options){func(o *Options) { o.BaseURL = "http://" + s.Addr().String() }}, change...)...)
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
		"closed by the server":     {"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n[]", 2},
		"old protocol":             {"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n[]", 2},
		"line feeds alone":         {"HTTP/1.1 200 OK\nContent-Length: 2\n\n[]", 1},
		"large header":             {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("y", 60<<10) + "\r\nContent-Length: 2\r\n\r\n[]", 1},
		"more than was told":       {good + "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", 2},
		"chunks and more":          {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n[]\r\n0\r\n\r\nHTTP/1.1 403 No\r\nContent-Length: 0\r\n\r\n", 2},
		"the length twice, agreed": {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n[]", 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := play(t, nil, row.answer, row.answer)
			c := s.client(t)
			for range 2 {
				if page, err := c.insertions(t); err != nil || page.Path != "" || !page.Found {
					t.Fatalf("%+v, %v", page, err)
				}
			}
			if s.seen.Load() != 2 || s.opened.Load() != row.opened {
				t.Errorf("%d requests over %d connections", s.seen.Load(), s.opened.Load())
			}
		})
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
		"interims without end":  strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 100) + good,
		"a line without end":    "HTTP/1.1 200 " + strings.Repeat("y", 1<<20),
		"two lengths":           "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n[]",
		"length and a sign":     "HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\n[]",
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

func TestAnAnswerToNobodyIsNotTakenForTheNextOne(t *testing.T) {
	told := make(chan struct{})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	defer serving.Wait()
	defer l.Close()
	serving.Go(func() {
		for first := true; ; first = false {
			c, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer c.Close()
				in := bufio.NewReader(c)
				_, _ = http.ReadRequest(in)
				_, _ = io.WriteString(c, good)
				if first {
					<-told
					_, _ = io.WriteString(c, "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
					told <- struct{}{}
				}
				_, _ = c.Read(make([]byte, 1))
			})
		}
	})
	c := newClient(t, func(o *Options) { o.BaseURL = "http://" + l.Addr().String() })
	if _, err := c.insertions(t); err != nil {
		t.Fatal(err)
	}
	told <- struct{}{}
	<-told
	if _, err := c.insertions(t); err != nil {
		t.Errorf("the second answer is that of nobody: %v", err)
	}
	c.closeIdle()
}

// TestAnAnswerToNobodyThatTLSHasReadIsNotTakenForTheNextOne is about what came in the same TLS record as the end of a body:
// nothing of it is left in the socket.
func TestAnAnswerToNobodyThatTLSHasReadIsNotTakenForTheNextOne(t *testing.T) {
	issued := httptest.NewTLSServer(nil)
	defer issued.Close()
	roots := x509.NewCertPool()
	roots.AddCert(issued.Certificate())
	const forbidden = "HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"
	body := "[" + strings.Repeat(" ", 9_000) + "]"
	long := fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	s := play(t, &tls.Config{Certificates: issued.TLS.Certificates, DynamicRecordSizingDisabled: true}, long+forbidden, long)
	c := s.client(t, func(o *Options) {
		o.BaseURL = "https://" + s.Addr().String()
		o.Transport = NewTransport(TransportOptions{tls: &tls.Config{RootCAs: roots}})
	})
	for range 2 {
		if _, err := c.insertions(t); err != nil {
			t.Errorf("an answer is that of nobody: %v", err)
		}
	}
	if s.opened.Load() != 2 {
		t.Errorf("%d connections", s.opened.Load())
	}
}

func TestAConnectionThatHungUpIsNotAskedAtAll(t *testing.T) {
	s := play(t, nil, good)
	var again atomic.Int32
	c := s.client(t, func(o *Options) { o.Again = func(context.Context, Request) error { again.Add(1); return nil } })
	for range 5 {
		if _, err := c.insertions(t); err != nil {
			t.Fatal(err)
		}
		<-s.hung
	}
	if s.seen.Load() != 5 || again.Load() != 0 {
		t.Errorf("the API has seen %d requests, %d of them again", s.seen.Load(), again.Load())
	}
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
			if len(c.o.Transport.(*Transport).places) != 0 {
				t.Error("the request still has its place")
			}
		})
	}
}

func TestAConnectionNoticesThatItsContextEndedWhileItWasIdle(t *testing.T) {
	ours, theirs := net.Pipe()
	defer theirs.Close()
	c := newConn(NewTransport(TransportOptions{}), &url.URL{Scheme: "http", Host: "localhost"}, ours)
	defer c.close()
	ctx, cancel := context.WithCancel(t.Context())
	p := passage{ctx: ctx, sent: time.Now(), until: time.Now().Add(time.Hour)}
	if err := c.begin(p); err != nil {
		t.Fatal(err)
	}
	c.busy = false
	cancel()
	if c.begin(p) == nil {
		t.Error("it is ready for a request that has ended")
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
		if idle := gone.Sub(began); idle < reapEvery || idle > 2*reapEvery {
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
		for range 3 * mostUnderWay {
			all.Go(func() {
				if _, err := c.insertions(t); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if most.Load() != mostUnderWay || len(c.o.Transport.(*Transport).places) != 0 {
			t.Errorf("%d at once", most.Load())
		}
	})
}

func TestTLSIsSpokenAndOnlyHTTP1(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "[]") }))
	server.EnableHTTP2 = true
	server.Config.ErrorLog = quiet
	server.StartTLS()
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	certificates := server.TLS.Certificates
	trusting := func(o *Options) {
		o.Transport = NewTransport(TransportOptions{tls: &tls.Config{RootCAs: roots}})
	}
	c := newClient(t, func(o *Options) { o.BaseURL = server.URL }, trusting)
	for range 3 {
		if _, err := c.insertions(t); err != nil {
			t.Fatal(err)
		}
	}
	kept := c.o.Transport.(*Transport).idle
	if len(kept) != 1 || kept[0].nc.(*tls.Conn).ConnectionState().NegotiatedProtocol == "h2" {
		t.Errorf("%d connections are kept", len(kept))
	}
	only := play(t, &tls.Config{Certificates: certificates, NextProtos: []string{"another"}}, good) // to h2 alone, crypto/tls is kind
	_, err := only.client(t, func(o *Options) { o.BaseURL = "https://" + only.Addr().String() }, trusting).insertions(t)
	var broken *TransportError
	if !errors.As(err, &broken) || broken.Stage != StageTLS || !errors.Is(err, errProtocol) {
		t.Errorf("%T: %v", err, err)
	}
	guests := play(t, &tls.Config{Certificates: certificates, ClientAuth: tls.RequireAnyClientCert, MaxVersion: tls.VersionTLS12}, good)
	_, err = guests.client(t, func(o *Options) { o.BaseURL = "https://" + guests.Addr().String() }, trusting).insertions(t)
	if !errors.As(err, &broken) || broken.Stage != StageTLS || !errors.Is(err, errHandshake) {
		t.Errorf("%T: %v", err, err)
	}
	cut := play(t, &tls.Config{Certificates: certificates}, good, "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\n[")
	c = cut.client(t, func(o *Options) { o.BaseURL = "https://" + cut.Addr().String() }, trusting)
	_, first := c.insertions(t)
	_, second := c.insertions(t)
	if first != nil || !is[*TransportError](second) || cut.opened.Load() != 1 {
		t.Errorf("%v, %v over %d connections", first, second, cut.opened.Load())
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
		if !errors.As(err, &broken) || broken.Stage != StageTimeout || time.Since(began) != handshakeWithin {
			t.Errorf("%v after %v", err, time.Since(began))
		}
	})
}

func TestWhatIsNoHeaderIsNotSent(t *testing.T) {
	s := play(t, nil, good)
	tr := NewTransport(TransportOptions{})
	for _, change := range []func(*http.Request){
		func(r *http.Request) { r.Header.Set("X", "a\r\nY: b") }, func(r *http.Request) { r.Header["X\r\nY"] = []string{"b"} },
		func(r *http.Request) { r.Host = "a b" }, func(r *http.Request) { r.URL.RawPath = "/a b" }, func(r *http.Request) { r.URL.RawQuery = "a\r\n" },
		func(r *http.Request) { r.Method = http.MethodPost }, func(r *http.Request) { r.Body = http.NoBody },
	} {
		r, err := http.NewRequest(http.MethodGet, "http://"+s.Addr().String(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if change(r); func() bool { _, err = tr.RoundTrip(r); return err == nil }() {
			t.Errorf("sent %+v", r)
		}
	}
	if s.seen.Load() != 0 || len(tr.places) != 0 {
		t.Error("something was sent")
	}
}

func TestAProxyIsSpokenToByNetHTTP(t *testing.T) {
	if _, own := transportTo("https://api.example/x", time.Second).(*Transport); !own {
		t.Error("without a proxy")
	}
	for _, odd := range []string{"https://bücher.example", "https://[fe80::1%25eth0]:8443"} {
		if _, own := transportTo(odd, time.Second).(*Transport); own {
			t.Error(odd)
		}
	}
}
