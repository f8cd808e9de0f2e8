package listings

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
)

// forgetful answers the first request on each connection, and hangs up after it has read the second.
func forgetful(t *testing.T, seen *atomic.Int64) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				in := bufio.NewReader(c)
				for n := range 2 {
					if _, err := http.ReadRequest(in); err != nil {
						return
					}
					if seen.Add(1); n == 0 {
						c.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n[]"))
					}
				}
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

func TestARequestThatIsSentOnceMoreIsToldBefore(t *testing.T) {
	var seen, told atomic.Int64
	count := func(context.Context, Request) error { told.Add(1); return nil }
	c := newClient(t, func(o *Options) { o.BaseURL, o.Before, o.Again = forgetful(t, &seen), count, count })
	for range 4 {
		if _, err := c.insertions(t); err != nil {
			t.Error(err)
		}
	}
	if seen.Load() <= 4 || told.Load() != seen.Load() {
		t.Errorf("the API has seen %d requests, %d were told", seen.Load(), told.Load())
	}
}

func TestWhatMustNotBeSentAgainIsNot(t *testing.T) {
	var seen atomic.Int64
	c := newClient(t, func(o *Options) {
		o.BaseURL = forgetful(t, &seen)
		o.Again = func(context.Context, Request) error { return errors.New("no") }
	})
	_, first := c.insertions(t)
	_, second := c.insertions(t)
	if first != nil || second == nil || seen.Load() != 2 {
		t.Errorf("%v, %v after %d requests", first, second, seen.Load())
	}
}
