package ops

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"
)

// Health reports whether the daemon lives, and whether it can do its work. It holds no person's
// data and no secret: everybody who reaches the address may read it.
type Health struct {
	// every loop that has a heartbeat runs, and the store answers; a restart helps where it is
	// false
	Live   bool
	Ready  bool // and what is found can be kept and published. A halted agency does not matter
	Checks []Check
}

// Check is one thing that was looked at.
type Check struct {
	Name string `json:"name"`
	OK   bool   `json:"ok"`
	Text string `json:"text,omitempty"` // why not, or what is worth to know
	// it is part of being alive; others are part of being ready only
	Live bool `json:"live"`
}

// Alive checks the last heartbeat of a loop. One that had none yet counts from the moment it was
// started.
func Alive(name string, last, started time.Time, limit time.Duration) Check {
	if last.Before(started) {
		last = started
	}
	c := Check{Name: name, OK: true, Live: true}
	if ago := time.Since(last); ago > limit {
		c.OK, c.Text = false,
			fmt.Sprintf("no heartbeat for %s; at most %s is normal", ago.Round(time.Second), limit)
	}
	return c
}

// NewHealth judges checks.
func NewHealth(checks ...Check) Health {
	h := Health{Live: true, Ready: true, Checks: checks}
	for _, c := range checks {
		h.Live = h.Live && (c.OK || !c.Live)
		h.Ready = h.Ready && c.OK
	}
	return h
}

// serveHealth answers whether it is alive, or ready, with a word and a line for each thing that is
// wrong; with ?verbose, or if only JSON is accepted, with all checks.
func serveHealth(health func() Health, ready bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		h := health()
		code, word, wrong, checks := http.StatusOK, "ok", "", []Check{}
		if ready && !h.Ready || !h.Live {
			code, word = http.StatusServiceUnavailable, "failing"
		}
		for _, c := range h.Checks {
			if ready || c.Live {
				checks = append(checks, c)
			}
			if (ready || c.Live) && !c.OK {
				wrong += c.Name + ": " + c.Text + "\n"
			}
		}
		if r.URL.Query().Has("verbose") || r.Header.Get("Accept") == "application/json" {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			//nolint:errcheck // a client that hung up
			json.NewEncoder(w).Encode(struct {
				Status string  `json:"status"` // ok or failing
				Checks []Check `json:"checks"`
			}{word, checks})
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.WriteHeader(code)
		io.WriteString(w, word+"\n"+wrong) //nolint:errcheck // as above
	}
}
