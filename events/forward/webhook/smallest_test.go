package webhook_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"doorbell/events/forward"
	"doorbell/events/forward/forwardtest"
)

// poster is the smallest receiver that passes.
type poster struct{ url string }

func (p poster) Traits() forward.Traits { return forward.Traits{Destination: "poster", Digest: 20} }

func (p poster) Send(ctx context.Context, d forward.Delivery) error {
	if ctx.Err() != nil {
		return &forward.Retry{Reason: "cancelled"}
	}
	body, err := json.Marshal(d)
	if err != nil {
		return &forward.Refused{Reason: "no JSON"}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url, bytes.NewReader(body))
	if err != nil {
		return &forward.Refused{Reason: "no request"}
	}
	r.Header.Set("Id", d.Events[0].ID)
	if d.Test {
		r.Header.Set("Test", "test")
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	answer, err := client.Do(r)
	if err != nil {
		return &forward.Retry{Reason: "network"}
	}
	defer answer.Body.Close()
	_, _ = io.CopyN(io.Discard, answer.Body, 4096)
	switch seconds, _ := strconv.Atoi(answer.Header.Get("Retry-After")); {
	case answer.StatusCode < 300:
		return nil
	case answer.StatusCode == http.StatusGone:
		return &forward.Retry{Receiver: true, Reason: "410"}
	case answer.StatusCode == http.StatusTooManyRequests, answer.StatusCode >= 500:
		return &forward.Retry{Reason: "busy", After: time.Duration(seconds) * time.Second}
	}
	return &forward.Refused{Reason: "refused"}
}

func TestTheSmallestReceiverPasses(t *testing.T) {
	s := forwardtest.HTTP(func(_ *testing.T, url string) forward.Receiver { return poster{url} },
		forwardtest.Reply{Status: 200, Want: forwardtest.Done},
		[]forwardtest.Reply{
			{Status: 429, Header: map[string]string{"Retry-After": "30"}, Want: forwardtest.Retry, After: 30 * time.Second},
			{Status: 503, Want: forwardtest.Retry},
			{Status: 410, Want: forwardtest.Waits},
			{Status: 400, Want: forwardtest.Refused},
		})
	s.Secrets = []string{"s3cret"}
	works := s.Works
	s.Works = func(t *testing.T) forwardtest.Place {
		p := works(t)
		p.ID = func(m string) string {
			_, rest, _ := strings.Cut(m, "Id: ")
			id, _, _ := strings.Cut(rest, "\r\n")
			return id
		}
		return p
	}
	forwardtest.Receiver(t, s)
}
