package ops

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

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
		if text := log.String(); !strings.Contains(text, "not all is well: A100 is halted") || strings.Contains(text, "sentinel") {
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
