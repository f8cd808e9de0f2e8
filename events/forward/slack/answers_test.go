package slack_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"doorbell/events/forward"
	"doorbell/events/forward/forwardtest"
	"doorbell/events/forward/message"
	"doorbell/events/forward/slack"
)

// outcome is what an error means, in a word.
func outcome(err error) string {
	var retry *forward.Retry
	switch {
	case err == nil:
		return "taken"
	case errors.As(err, &retry) && retry.Receiver:
		return fmt.Sprintf("waits %v", retry.After)
	case errors.As(err, &retry):
		return fmt.Sprintf("later %v", retry.After)
	case errors.As(err, new(*forward.Refused)):
		return "never"
	}
	return "?"
}

func TestEveryAnswerMeansSomething(t *testing.T) {
	const page = "<html>nora.beispiel@example.org " + secretPath + "</html>"
	for _, c := range []struct {
		status      int
		body, after string
		want        string
	}{
		{200, "ok", "", "taken"},
		{200, "no_service", "", "waits 0s"},
		{204, "", "", "taken"},
		{301, "", "", "waits 0s"},
		{400, "invalid_payload", "", "never"},
		{400, "user_not_found", "", "waits 0s"},
		{400, page, "", "never"},
		{403, "action_prohibited", "", "waits 0s"},
		{404, "no_service", "", "waits 0s"},
		{410, "channel_is_archived", "", "waits 0s"},
		{413, "", "", "never"},
		{429, "rate_limited", "30", "waits 30s"},
		{429, "", "0.5", "waits 500ms"},
		{429, "", "NaN", "waits 0s"},
		{429, "", "1e300", "waits 1h0m0s"},
		{429, "", "soon", "waits 0s"},
		{429, "", "Sun, 01 Jan 2226 00:00:00 GMT", "waits 1h0m0s"},
		{429, "", "Sun, 01 Jan 2006 00:00:00 GMT", "waits 0s"},
		{429, "invalid_payload", "7", "waits 7s"},
		{500, "rollup_error", "", "waits 0s"},
		{500, "no_service", "", "waits 0s"},
		{503, page, "120", "later 2m0s"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Location", "/elsewhere")
			w.Header().Set("Retry-After", c.after)
			w.WriteHeader(c.status)
			io.WriteString(w, c.body)
			if r.URL.Path != secretPath {
				t.Errorf("%d: %s was asked", c.status, r.URL.Path)
			}
		}))
		err := chat.At(t, server.URL).Send(t.Context(), forwardtest.OneLead(t))
		server.Close()
		if got := outcome(err); got != c.want {
			t.Errorf("%d %.20q is %s (%v), want %s", c.status, c.body, got, err, c.want)
		}
		holdsNothing(t, err, server.URL)
	}
}

// holdsNothing fails if an error contains a secret, a person, or what was read.
func holdsNothing(t *testing.T, err error, address string) {
	t.Helper()
	if err == nil {
		return
	}
	for _, secret := range []string{"sEcReT", "/services", strings.TrimPrefix(address, "http://"), "nora", "Nora", "html", "elsewhere"} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("the error holds %s: %v", secret, err)
		}
	}
}

func TestAnAddressThatIsNoWebhooksIsRefusedAndNotQuoted(t *testing.T) {
	for url, want := range map[string]string{
		"":                                      "no address to post to",
		"sEcReT":                                "no address to post to",
		"https://":                              "no address to post to",
		"https:sEcReT":                          "no address to post to",
		"https://hooks.slack.com:sEcReT":        "no address to post to",
		"%sEcReT":                               "no address to post to",
		"ftp://hooks.slack.com/services/sEcReT": "no address to post to",
		"http://hooks.slack.com/services/T/B/sEcReT":         "speaks plain http",
		"http://sEcReT/services/T/B/x":                       "speaks plain http",
		"https://hooks.slack.com/triggers/T/1/sEcReT":        "is not that of an incoming webhook",
		"https://hooks.slack.com/":                           "is not that of an incoming webhook",
		"https://hooks.slack.com/services/":                  "is missing",
		"https://chat.example":                               "is missing",
		"https://user:sEcReT@hooks.slack.com/services/T/B/x": "no address to post to",
		"https://hooks.slack.com/services/T/B/x#sEcReT":      "must not contain #",
	} {
		_, err := slack.New(forward.Hook{URL: url}, message.Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", url, err, want)
		} else if strings.Contains(err.Error(), "sEcReT") {
			t.Errorf("%q: the error quotes it: %v", url, err)
		}
	}
	for _, o := range []forward.Hook{
		{URL: "https://hooks.slack.com/services/T/B/x"},
		{URL: " https://hooks.slack.com/services/T/B/x\n"}, // as files end
		{URL: "https://chat.example/hooks/abc"},
		{URL: "http://127.0.0.1:1/hooks/abc"},
		{URL: "http://[::1]:1/hooks/abc"},
		{URL: "http://localhost/hooks/abc"},
		{URL: "http://chat.internal/hooks/abc", AllowPlaintext: []string{"Chat.internal"}},
	} {
		if _, err := slack.New(o, message.Options{}); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
