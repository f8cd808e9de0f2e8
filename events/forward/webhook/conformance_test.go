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

// TestTheWebhookIsAReceiverLikeAllOthers runs the suite of all receivers with every status that HTTP knows, and some that it does not.
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
	for status := 201; status < 600; status++ {
		if http.StatusText(status) == "" && status%100 < 90 {
			continue
		}
		r := forwardtest.Reply{Status: status, Want: forwardtest.Refused, Header: map[string]string{"Retry-After": "30"}}
		switch expected(status) {
		case "done":
			r.Want = forwardtest.Done
		case "later":
			r.Want = forwardtest.Retry
		case "waits":
			r.Want = forwardtest.Waits
		case "later 7s":
			r.Want, r.After = forwardtest.Retry, 30*time.Second
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
		if err != nil {
			t.Fatal(err)
		}
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
