package listings

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// Frames of HTTP/2, RFC 9113.
const (
	frameData, frameHeaders, frameReset, frameSettings, frameGoAway byte = 0, 1, 3, 4, 7

	flagAck, flagEndStream, flagEndHeaders byte = 1, 1, 4
)

func frame(kind, flags byte, stream uint32, payload ...byte) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	b = append(b, flags)
	return append(binary.BigEndian.AppendUint32(b, stream), payload...)
}

// answer is a good one: status 200 stands in the static table of names and values.
func answer(stream uint32) []byte {
	return append(frame(frameHeaders, flagEndHeaders, stream, 0x88), frame(frameData, flagEndStream, stream, '[', ']')...)
}

// speakHTTP2 answers the requests of a connection frame by frame, until it is gone or nothing is left to say. Of what else
// comes it takes no notice.
func speakHTTP2(c net.Conn, say func(stream uint32) (answer []byte, more bool)) {
	var writing sync.WaitGroup
	out := make(chan []byte, 100) // who writes to a pipe waits until somebody reads
	writing.Go(func() {
		for b := range out {
			_, _ = c.Write(b)
		}
	})
	defer writing.Wait()
	defer c.Close()
	defer close(out)
	if _, err := io.CopyN(io.Discard, c, int64(len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))); err != nil {
		return
	}
	out <- frame(frameSettings, 0, 0)
	more := true
	for head := make([]byte, 9); more; {
		if _, err := io.ReadFull(c, head); err != nil {
			return
		}
		if _, err := io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint32(head)>>8)); err != nil {
			return
		}
		switch {
		case head[3] == frameSettings && head[4]&flagAck == 0:
			out <- frame(frameSettings, flagAck, 0)
		case head[3] == frameHeaders:
			var b []byte
			b, more = say(binary.BigEndian.Uint32(head[5:]))
			out <- b
		}
	}
	_, _ = io.Copy(io.Discard, c)
}

// framed is a client of servers that speak HTTP/2 frame by frame: one for each connection, over pipes.
func framed(t *testing.T, o Options, speak func(connection int, c net.Conn)) *Client {
	t.Helper()
	config, roots := certified(t)
	config.NextProtos = []string{"h2"}
	var serving sync.WaitGroup
	var connections atomic.Int64 // the transport may dial twice at once
	under := NewTransport(TransportOptions{Dial: func(context.Context, string, string) (net.Conn, error) {
		ours, theirs := net.Pipe()
		n := int(connections.Add(1))
		serving.Go(func() { speak(n, tls.Server(theirs, config)) })
		return ours, nil
	}})
	under.TLSClientConfig.RootCAs = roots
	under.TLSClientConfig.ServerName = "example.com" // of the certificate
	o.BaseURL, o.Transport = "https://api.example", under
	t.Cleanup(serving.Wait)
	return newClient(t, func(to *Options) { *to = o })
}

func TestHTTP2IsSpokenWhereItIsOffered(t *testing.T) {
	var protocols sync.Map
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protocols.Store(r.Proto+" "+r.RemoteAddr, r.Header.Get("Authorization"))
		fmt.Fprint(w, `[{"propertyReferenceId":"a#1##"}]`)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	c := newClient(t, trusting(server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs), func(o *Options) { o.BaseURL = server.URL })
	for range 5 {
		if page, err := c.insertions(t); err != nil || references(page) != "a#1##" {
			t.Fatal(page, err)
		}
	}
	count := 0
	for what, key := range protocols.Range {
		count++
		if !strings.HasPrefix(what.(string), "HTTP/2.0 ") || key != "ApiKey "+sentinelKey {
			t.Error(what)
		}
	}
	if count != 1 {
		t.Errorf("%d connections", count)
	}
}

func TestASilentConnectionIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := framed(t, Options{Timeout: time.Minute}, func(connection int, c net.Conn) {
			asked := 0
			speakHTTP2(c, func(stream uint32) ([]byte, bool) {
				if asked++; connection == 1 && asked > 1 {
					return nil, false
				}
				return answer(stream), true
			})
		})
		for n, good := range []bool{true, false, true} {
			began := time.Now()
			if _, err := c.insertions(t); (err == nil) != good || time.Since(began) > silentFor+aliveWithin+time.Second {
				t.Errorf("request %d: %v after %v", n+1, err, time.Since(began))
			}
		}
		c.closeIdle()
	})
}
