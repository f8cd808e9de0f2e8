package forwardtest

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"doorbell/events/forward"
)

// Reply is a response of an HTTP endpoint, and what it means.
type Reply struct {
	Status     int
	Body       string
	RetryAfter string
	Want       Want
	After      time.Duration
	Says       string // what the error contains
}

// HTTP is a suite whose other ends are HTTP servers. Open makes the receiver that sends to a URL.
// Good is what the endpoint answers when it takes a message. The suite lacks Secrets, Check and
// Place.ID.
func HTTP(open func(t *testing.T, url string) forward.Receiver, good Reply, replies []Reply) Suite {
	s := Suite{
		Works: func(t *testing.T) Place {
			var mu sync.Mutex
			var took []string
			url := serve(t, func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				took = append(took, written(r))
				mu.Unlock()
				answer(w, good)
			})
			return Place{Receiver: open(t, url), Took: func() []string {
				mu.Lock()
				defer mu.Unlock()
				return slices.Clone(took)
			}}
		},
		Away: func(t *testing.T) forward.Receiver {
			gone := httptest.NewServer(nil)
			gone.Close()
			return open(t, gone.URL)
		},
		Silent: func(t *testing.T) forward.Receiver {
			return open(t, serve(t, func(_ http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				<-r.Context().Done()
			}))
		},
	}
	endless := Reply{Status: http.StatusBadGateway, Body: strings.Repeat("no ", 5<<20), Want: Retry}
	redirect := Reply{Status: http.StatusTemporaryRedirect, Want: Waits, Says: "redirect"}
	for _, r := range append(replies, endless, redirect, good) {
		s.Answers = append(s.Answers, Answer{
			Name: fmt.Sprintf("%d %.60s %s", r.Status, r.Body, r.RetryAfter), Want: r.Want, After: r.After, Says: r.Says,
			Open: func(t *testing.T) forward.Receiver {
				asked := 0
				return open(t, serve(t, func(w http.ResponseWriter, q *http.Request) {
					if asked++; asked > 1 {
						t.Error("it was asked again: a redirect was followed")
					}
					_, _ = io.Copy(io.Discard, q.Body)
					w.Header().Set("Location", "/elsewhere")
					answer(w, r)
				}))
			},
		})
	}
	return s
}

func answer(w http.ResponseWriter, r Reply) {
	if r.RetryAfter != "" {
		w.Header().Set("Retry-After", r.RetryAfter)
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
