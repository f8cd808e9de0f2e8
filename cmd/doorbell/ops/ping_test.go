package ops

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"doorbell/events/helptest"
)

// called counts calls in place of a network.
type called struct{ calls atomic.Int64 }

func (c *called) RoundTrip(r *http.Request) (*http.Response, error) {
	c.calls.Add(1)
	code := http.StatusNotFound
	if r.URL.String() == "http://127.0.0.1:1/sentinel" && r.Method == http.MethodGet {
		code = http.StatusOK
	}
	return &http.Response{StatusCode: code, Body: http.NoBody}, nil
}

func TestAPingIsSentEachMinuteAsLongAsAllIsWell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ill atomic.Bool
		var via called
		var log helptest.Lines
		p := Ping{
			URL: "http://127.0.0.1:1/sentinel", Via: &via, Log: slog.New(slog.NewTextHandler(&log, nil)),
			Well: func() error {
				if ill.Load() {
					return errors.New("A100 is halted")
				}
				return nil
			},
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- p.Run(ctx) }()
		for _, tt := range []struct {
			ill         bool
			minutes, of int64
		}{{false, 10, 10}, {true, 60, 10}, {false, 5, 15}} {
			ill.Store(tt.ill)
			time.Sleep(time.Duration(tt.minutes)*time.Minute + time.Second)
			if n := via.calls.Load(); n != tt.of {
				t.Errorf("%d calls, want %d", n, tt.of)
			}
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		text := log.String()
		if !strings.Contains(text, "not all is well: A100 is halted") || strings.Contains(text, "sentinel") ||
			strings.Contains(text, "404") {
			t.Errorf("the log says\n%s", text)
		}
	})
}

func TestAFailedPingReportsWhyAndNotWhere(t *testing.T) {
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
		answers.URL + "/sentinel/moved": "it responded with 302", answers.URL + "/sentinel/lost": "it responded with 302",
		answers.URL + "/sentinel": "it responded with 404", gone.URL + "/sentinel": "connection refused",
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
