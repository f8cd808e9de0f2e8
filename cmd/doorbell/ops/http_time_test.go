package ops

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"doorbell/events"
	"doorbell/events/helptest"
)

// pipes is a listener whose connections need no network, so that time can be virtual.
type pipes struct {
	calls chan net.Conn
	gone  chan struct{}
	once  sync.Once
}

func newPipes() *pipes { return &pipes{calls: make(chan net.Conn), gone: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.calls:
		return c, nil
	case <-p.gone:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.gone) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 3667} }

// call connects and sends.
func (p *pipes) call(t *testing.T, text string) net.Conn {
	t.Helper()
	ours, theirs := net.Pipe()
	p.calls <- theirs
	if _, err := io.WriteString(ours, text); err != nil {
		t.Fatal(err)
	}
	return ours
}

// virtually runs a test against a server in virtual time.
func virtually(t *testing.T, test func(t *testing.T, p *pipes)) {
	synctest.Test(t, func(t *testing.T) {
		p, s := newPipes(), &site{log: &helptest.Lines{}}
		s.serve(t, p, testToken)
		test(t, p)
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	})
}

// endsWithin wants the server to hang up by then, and not much earlier.
func endsWithin(t *testing.T, c net.Conn, limit time.Duration) {
	t.Helper()
	began := time.Now()
	_, _ = io.Copy(io.Discard, c)
	if took := time.Since(began); took > limit+time.Second || took < limit/2 {
		t.Errorf("it ended after %s, want %s", took, limit)
	}
}

func TestALiveStreamOutlivesTheLimitsOfOtherResponsesAndEndsWithTheServer(t *testing.T) {
	virtually(t, func(t *testing.T, p *pipes) {
		c := p.call(t, "GET /events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+testToken+"\r\n\r\n")
		r := bufio.NewReader(c)
		began := time.Now()
		for n := range 200 { // every 20 s
			for want := fmt.Sprintf("data: %d\n", n); ; {
				line, err := r.ReadString('\n')
				if err != nil {
					t.Fatalf("it ended after %s: %v", time.Since(began), err)
				}
				if line == want {
					break
				}
			}
		}
		if time.Since(began) < time.Hour {
			t.Errorf("only %s have passed", time.Since(began))
		}
	})
}

func TestASlowClientIsDisconnected(t *testing.T) {
	virtually(t, func(t *testing.T, p *pipes) {
		for what, tt := range map[string]struct {
			text  string
			limit time.Duration
		}{
			"an endless header":    {"GET /livez HTTP/1.1\r\nHost: x\r\nX: ", headerLimit},
			"an unused connection": {"G", headerLimit},
			"a command that is not completed": {
				"POST /v1/poll HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer " + testToken + "\r\nContent-Length: 100\r\n\r\n{", requestLimit,
			},
			"an unauthorized body": {"POST /v1/poll HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{", requestLimit},
			"no further request":   {"GET /livez HTTP/1.1\r\nHost: x\r\n\r\n", idleLimit},
		} {
			t.Log(what)
			c := p.call(t, tt.text)
			endsWithin(t, c, tt.limit)
			c.Close()
		}
	})
}

func TestAClientThatReadsNothingIsDisconnected(t *testing.T) {
	virtually(t, func(t *testing.T, p *pipes) {
		for _, path := range []string{"/large", "/events", "/v1/status"} {
			c := p.call(t, "GET "+path+" HTTP/1.1\r\nHost: localhost\r\n\r\n")
			time.Sleep(2*answerLimit + time.Second)
			if n, err := c.Read(make([]byte, 100)); n > 0 || err != io.EOF {
				t.Errorf("%s: the connection is still open: %v", path, err)
			}
			c.Close()
		}
	})
}

func TestAReaderAtTheSocketMayPauseInAListOfEventsButNotInABackup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		part := make([]byte, 64<<10)
		p, v := newPipes(), Verbs{
			Events: func(context.Context, EventQuery) iter.Seq2[LoggedEvent, error] {
				return func(yield func(LoggedEvent, error) bool) {
					for yield(LoggedEvent{Event: events.Event{Data: json.RawMessage(`{}`)}}, nil) {
					}
				}
			},
			Backup: func(w io.Writer, sized func(int64)) (err error) {
				for sized(1 << 40); err == nil; {
					_, err = w.Write(part)
				}
				return err
			},
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- ServeSocket(ctx, p, v) }()
		for request, cut := range map[string]bool{
			"POST " + eventsPath + " HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}": false,
			"GET " + backupPath + " HTTP/1.1\r\nHost: x\r\n\r\n":                         true,
		} {
			c := p.call(t, request)
			time.Sleep(2*answerLimit + time.Second)
			if _, err := c.Read(part); (err == io.EOF) != cut {
				t.Errorf("%.20q after a pause: %v", request, err)
			}
			c.Close()
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

func TestConnectionsAreBounded(t *testing.T) {
	virtually(t, func(t *testing.T, p *pipes) {
		var held []net.Conn
		for range maxConnections {
			held = append(held, p.call(t, "G"))
		}
		served := make(chan struct{})
		go func() {
			p.call(t, "GET /livez HTTP/1.1\r\nHost: x\r\n\r\n").Close()
			close(served)
		}()
		synctest.Wait()
		select {
		case <-served:
			t.Error("one connection too many was served")
		default:
		}
		held[0].Close()
		<-served
		for _, c := range held {
			c.Close()
		}
	})
}
