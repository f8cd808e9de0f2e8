package webhook_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"doorbell/events/forward"
	"doorbell/events/forward/forwardtest"
	"doorbell/events/forward/webhook"
)

func TestTheWebhookIsAReceiverLikeAllOthers(t *testing.T) {
	t.Run("event", func(t *testing.T) { conforms(t, nil) })
	t.Run("template", func(t *testing.T) {
		conforms(t, parsed(t, `{"body": {"id": "{{.event.id}}", "name": "{{.contact.firstName}}", "text": "{{.contact.message}}", "all": "{{json .contact}}"},
			"headers": {"Title": "{{.contact.firstName}} {{.contact.message}}"}}`))
	})
}

func conforms(t *testing.T, template *webhook.Template) {
	const token = "sentinel-token"
	var replies []forwardtest.Reply
	for status, want := range map[int]forwardtest.Want{
		201: forwardtest.Done, 204: forwardtest.Done, 299: forwardtest.Done, 304: forwardtest.Waits, 400: forwardtest.Refused,
		409: forwardtest.Refused, 413: forwardtest.Refused, 422: forwardtest.Refused, 499: forwardtest.Refused,
		401: forwardtest.Waits, 402: forwardtest.Waits, 403: forwardtest.Waits, 404: forwardtest.Waits, 405: forwardtest.Waits,
		407: forwardtest.Waits, 410: forwardtest.Waits, 429: forwardtest.Waits, 408: forwardtest.Retry, 500: forwardtest.Retry,
		503: forwardtest.Retry, 599: forwardtest.Retry,
	} {
		r := forwardtest.Reply{Status: status, Want: want, RetryAfter: "30"}
		if status >= 400 && want != forwardtest.Refused {
			r.After = 30 * time.Second
		}
		replies = append(replies, r)
	}
	s := forwardtest.HTTP(func(t *testing.T, url string) forward.Receiver {
		return open(t, webhook.Options{URL: url + "/" + token, Secrets: secrets[0], Template: template})
	}, forwardtest.Reply{Status: http.StatusOK, Want: forwardtest.Done}, replies)
	s.Secrets = []string{token, secrets[0]}
	works := s.Works
	s.Works = func(t *testing.T) forwardtest.Place {
		p := works(t)
		p.ID = func(m string) string { return headerOf(m).Get("webhook-id") }
		return p
	}
	s.Check = func(t *testing.T, m string) {
		_, body, _ := strings.Cut(m, "\r\n\r\n")
		judge, err := standardwebhooks.NewWebhook(secrets[0])
		must(t, err)
		if err := judge.Verify([]byte(body), headerOf(m)); err != nil {
			t.Errorf("not verified: %v", err)
		}
		for name := range headerOf(m) {
			if strings.HasPrefix(name, "X-") || name == "Bcc" {
				t.Errorf("a stranger has made the header %s", name)
			}
		}
	}
	forwardtest.Receiver(t, s)
}

// headerOf reads the header of a message as the suite writes it down.
func headerOf(m string) http.Header {
	head, _, _ := strings.Cut(m, "\r\n\r\n")
	h := http.Header{}
	for i, line := range strings.Split(head, "\r\n") {
		if name, value, ok := strings.Cut(line, ": "); ok && i > 0 {
			h.Add(name, value)
		}
	}
	if n, err := strconv.Atoi(h.Get("Content-Length")); err == nil && n == 0 {
		h.Add("X-Empty", "the body is empty")
	}
	return h
}
