package ops

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"doorbell/poller"
)

func TestAllIsWellOnlyIfEverythingIs(t *testing.T) {
	at := time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC)
	for what, harm := range map[string]func(*Status){
		"": func(*Status) {},
		"B200 is halted: the API refuses access;": func(s *Status) {
			s.Watch.Agencies[1].State, s.Watch.Agencies[1].Halts = "halted", []poller.HaltStatus{{}}
		},
		"B200 is halted: the API refuses access; A100 lacks 0 of 0 insertions;": func(s *Status) {
			s.Watch.Agencies[0], s.Watch.Agencies[1] = s.Watch.Agencies[1], s.Watch.Agencies[0]
			s.Watch.Agencies[0].Halts, s.Watch.Agencies[1].Held = []poller.HaltStatus{{}}, &poller.HeldStatus{}
		},
		"A100: no good answer about ;":                            func(s *Status) { s.Watch.Agencies[0].Alarms = []poller.Alarm{{Kind: "stale"}} },
		"A100: the API fails;":                                    func(s *Status) { s.Watch.Agencies[0].State = "backing_off" },
		"The API does not answer;":                                func(s *Status) { s.Watch.Down = "in 3s" },
		"The store is nearly full;":                               func(s *Status) { s.Store.Alarm = true },
		"The store is full: polling stopped until there is room;": func(s *Status) { s.Store.Full, s.Store.Alarm = true, true },
		"slack: a message waits; mail: nothing comes from NATS;": func(s *Status) {
			s.Forwarders = []ForwarderStatus{{Name: "slack", Attempts: 2}, {Name: "mail", Problem: "x"}}
		},
		"slack: nothing comes from NATS (x);": func(s *Status) {
			s.Forwarders = []ForwarderStatus{{Name: "slack", Destination: "x", Problem: "it waits"}}
		},
		"4 agencies are halted: the API refuses access;": func(s *Status) {
			for n := range 4 {
				a := poller.AgencyStatus{AgencyID: fmt.Sprint("Z", n+1), State: "halted", Halts: []poller.HaltStatus{{}}}
				s.Watch.Agencies = append(s.Watch.Agencies, a)
			}
		},
		"Events of B200 are not published;": func(s *Status) { s.Relay[0].Problem, s.Relay[0].Pending = "the stream is full", 3 },
		"No agency is watched;":             func(s *Status) { s.Watch.Agencies = nil },
	} {
		s := Status{NATS: NATSStatus{Connected: true}, Watch: poller.Status{At: at, Agencies: []poller.AgencyStatus{
			{AgencyID: "A100", State: "watching", LastGoodAnswer: at.Add(-time.Minute)}, {AgencyID: "B200", State: "watching", LastGoodAnswer: at.Add(-14 * time.Minute)},
		}}, Relay: []RelayStatus{{AgencyID: "B200"}}}
		harm(&s)
		if got := s.Summary(); got+";" != what && !(what == "" && got == "") {
			t.Errorf("%q: %q", what, got)
		}
	}
}

func TestAPingIsSentEachMinuteAsLongAsAllIsWell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int64
		var ill atomic.Pointer[error]
		l, log := newPipes(), &logged{}
		server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if calls.Add(1); r.URL.Path != "/sentinel" || r.Method != http.MethodGet {
				t.Errorf("%s %s was called", r.Method, r.URL)
			}
		})}
		go server.Serve(l)
		defer server.Close()
		via := &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			l.calls <- theirs
			return ours, nil
		}}
		p := Ping{URL: "http://127.0.0.1:1/sentinel", Via: via, Log: slog.New(slog.NewTextHandler(log, nil)), Well: func() error {
			if err := ill.Load(); err != nil {
				return *err
			}
			return nil
		}}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- p.Run(ctx) }()
		time.Sleep(10*time.Minute + time.Second)
		if n := calls.Load(); n != 10 {
			t.Errorf("%d calls in ten minutes", n)
		}
		why := errors.New("A100 is halted")
		ill.Store(&why)
		time.Sleep(time.Hour)
		if n := calls.Load(); n != 10 {
			t.Errorf("%d calls while not all was well", n-10)
		}
		ill.Store(nil)
		time.Sleep(5 * time.Minute)
		if n := calls.Load(); n != 15 {
			t.Errorf("%d calls after that", n-10)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if text := log.String(); strings.Count(text, "A100 is halted") != 1 || strings.Count(text, "called again") != 1 || strings.Contains(text, "sentinel") {
			t.Errorf("the log says\n%s", text)
		}
	})
}

func TestAPingThatFailsSaysWhyAndNotWhere(t *testing.T) {
	var elsewhere atomic.Int64
	away := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { elsewhere.Add(1) }))
	defer away.Close()
	answers := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "moved") {
			http.Redirect(w, r, away.URL+"/sentinel", http.StatusFound)
			return
		}
		if strings.HasSuffix(r.URL.Path, "lost") {
			w.Header().Set("Location", "http://a b/sentinel")
			w.WriteHeader(http.StatusFound)
			return
		}
		http.Error(w, "sentinel", http.StatusNotFound)
	}))
	defer answers.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for url, want := range map[string]string{
		answers.URL + "/sentinel/moved": "it answers 302", answers.URL + "/sentinel/lost": "it answers 302", answers.URL + "/sentinel": "it answers 404", gone.URL + "/sentinel": "connection refused",
		"http://127.0.0.1:1/%zzsentinel": "cannot be called",
	} {
		p := Ping{URL: url, Well: func() error { return nil }}
		if err := p.RunOnce(t.Context()); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "sentinel") {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if elsewhere.Load() > 0 {
		t.Error("a redirect was followed")
	}
}
