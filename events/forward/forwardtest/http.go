package forwardtest

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"doorbell/events/forward"
)

// Reply is what an HTTP endpoint answers, and what that means.
type Reply struct {
	Status int
	Body   string
	Header map[string]string
	Want   Want
	After  time.Duration
}

// HTTP is a suite whose other ends are HTTP servers. Open makes the receiver that sends to a URL.
// Good is what the endpoint answers when it takes a message. The suite lacks Secrets, Check and
// Place.ID.
func HTTP(open func(t *testing.T, url string) forward.Receiver, good Reply, replies []Reply) Suite {
	s := Suite{
		Works: func(t *testing.T) Place {
			var took messages
			url := serve(t, func(w http.ResponseWriter, r *http.Request) {
				took.add(written(r))
				answer(w, good)
			})
			return Place{Receiver: open(t, url), Took: took.all}
		},
		Away: func(t *testing.T) forward.Receiver { return open(t, unreachable(t)) },
		Silent: func(t *testing.T) forward.Receiver {
			return open(t, serve(t, func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				<-r.Context().Done()
			}))
		},
		Redirects: func(t *testing.T) (forward.Receiver, func() int) {
			var arrived messages
			elsewhere := serve(t, func(w http.ResponseWriter, r *http.Request) {
				arrived.add(r.URL.Path)
				answer(w, good)
			})
			o := open(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, elsewhere+"/there", http.StatusTemporaryRedirect)
			}))
			return o, func() int { return len(arrived.all()) }
		},
	}
	for _, r := range append(replies, endless(good), good) {
		s.Answers = append(s.Answers, Answer{
			Name: fmt.Sprintf("%d %.20s %v", r.Status, r.Body, r.Header), Want: r.Want, After: r.After,
			Open: func(t *testing.T) forward.Receiver {
				return open(t, serve(t, func(w http.ResponseWriter, req *http.Request) {
					_, _ = io.Copy(io.Discard, req.Body)
					answer(w, r)
				}))
			},
		})
	}
	return s
}

// endless is an error page that is too long to be read to its end.
func endless(good Reply) Reply {
	return Reply{Status: http.StatusBadGateway, Body: strings.Repeat("no ", 5<<20), Want: Retry, Header: good.Header}
}

func answer(w http.ResponseWriter, r Reply) {
	for name, value := range r.Header {
		w.Header().Set(name, value)
	}
	w.WriteHeader(r.Status)
	_, _ = io.WriteString(w, r.Body)
}

// written is a request as one text: method and path, headers, body.
func written(r *http.Request) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\r\n", r.Method, r.URL)
	_ = r.Header.Write(&b)
	b.WriteString("\r\n")
	_, _ = io.Copy(&b, r.Body)
	return b.String()
}

func serve(t *testing.T, h http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}

// unreachable is a URL at which no server listens.
func unreachable(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return "http://" + l.Addr().String()
}
