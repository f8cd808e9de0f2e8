package webhook_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"go.uber.org/goleak"

	"doorbell/events"
	"doorbell/events/forward"
	"doorbell/events/forward/webhook"
	"doorbell/events/helptest"
)

var must = helptest.Must

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const person = "nora.beispiel-zq7@example.org"

// lead is a contact request whose payload changes easily when it is encoded again.
func lead(t *testing.T) events.Event {
	t.Helper()
	e, err := events.New(&events.ContactRequestCreated{
		Common:              events.Common{AgencyID: "A 100", ObservedAt: time.Date(2026, 11, 20, 9, 41, 43, 498e6, time.UTC)},
		PropertyReferenceID: "Zürich #1203#H2#0305", ContactRequestID: "7", Identity: events.IdentityID,
		Contact: events.Contact{Email: person, Message: "<!channel> & \u2028 \"Grüezi\"\r\n"},
		Record:  json.RawMessage(`{"n":9007199254740993,"z":1.50,"a":"<&>"}`),
	})
	must(t, err)
	return e.Stamp(1842, time.Date(2026, 11, 20, 9, 41, 43, 503e6, time.UTC), "store")
}

// receiver is a server that keeps what it is sent.
type receiver struct {
	*httptest.Server
	header http.Header
	body   []byte
	count  int
}

func receive(t *testing.T, answer http.HandlerFunc) *receiver {
	t.Helper()
	r := &receiver{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.count++
		r.header = q.Header
		r.body, _ = io.ReadAll(q.Body)
		if q.Method != http.MethodPost {
			t.Errorf("the method is %s", q.Method)
		}
		answer(w, q)
	}))
	t.Cleanup(r.Close)
	return r
}

func taken(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }

func open(t *testing.T, o webhook.Options) *webhook.Receiver {
	t.Helper()
	w, err := webhook.New(o)
	must(t, err)
	t.Cleanup(w.Close)
	return w
}

func one(e events.Event) forward.Delivery { return forward.Delivery{Events: []events.Event{e}} }

var secrets = []string{
	"whsec_" + base64.StdEncoding.EncodeToString([]byte("this-key-has-24-bytes-ok")),
	"whsec_" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("another ", 8))),
}

func TestAnIndependentImplementationVerifiesTheSignatureOfEitherSecret(t *testing.T) {
	r := receive(t, taken)
	w := open(t, webhook.Options{URL: r.URL, Secrets: secrets[0] + " " + secrets[1]})
	must(t, w.Send(t.Context(), one(lead(t))))
	for _, secret := range secrets {
		judge, err := standardwebhooks.NewWebhook(secret)
		must(t, err)
		if err := judge.Verify(r.body, r.header); err != nil {
			t.Errorf("not verified: %v", err)
		}
		if judge.Verify(append([]byte(" "), r.body...), r.header) == nil {
			t.Error("a body that was tampered with is verified")
		}
		for name, value := range map[string]string{
			"webhook-id":        "another",
			"webhook-timestamp": strconv.FormatInt(time.Now().Add(time.Second).Unix(), 10),
		} {
			tampered := r.header.Clone()
			tampered.Set(name, value)
			if judge.Verify(r.body, tampered) == nil {
				t.Errorf("another %s is verified", name)
			}
		}
	}
}

func TestBodyAndHeadersAreThoseOfTheEvent(t *testing.T) {
	r := receive(t, taken)
	e, w := lead(t), open(t, webhook.Options{URL: r.URL, Version: "1.2"})
	must(t, w.Send(t.Context(), one(e)))
	if string(r.body) != string(e.Data) {
		t.Errorf("the body is %s, want %s", r.body, e.Data)
	}
	for name, values := range e.Header() {
		want := values[0]
		if name == "ce-datacontenttype" || !strings.HasPrefix(name, "ce-") {
			want = ""
		}
		if got := r.header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	for name, want := range map[string]string{
		"Content-Type": "application/json", "webhook-id": e.ID, "User-Agent": "doorbell/1.2", "ce-subject": "Z%C3%BCrich%20#1203#H2#0305",
		"webhook-signature": "", "doorbell-test": "", "ce-origin": "live",
	} {
		if got := r.header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	test := one(e.WithOrigin(events.OriginReplay))
	test.Test = true
	if back, err := events.Decode(withType(r.header), r.body); err != nil || back.Sequence != e.Sequence || back.Reference != e.Reference {
		t.Errorf("it cannot be read as an event: %v", err)
	}
	if err := w.Send(t.Context(), test); err != nil || r.header.Get("doorbell-test") != "true" ||
		r.header.Get("ce-origin") != "replay" || !strings.Contains(string(r.body), `"origin":"replay"`) {
		t.Errorf("a test of a replay: %v, %v", err, r.header)
	}
}

// withType is a header as NATS writes it: with the attribute that HTTP has a header of its own for.
func withType(h http.Header) map[string][]string {
	all := map[string][]string{"ce-datacontenttype": h["Content-Type"]}
	for name, values := range h {
		all[strings.ToLower(name)] = values
	}
	return all
}

func outcome(err error) string {
	var retry *forward.Retry
	var refused *forward.Refused
	switch {
	case err == nil:
		return "done"
	case errors.As(err, &refused) && refused.Certain:
		return "certainly never"
	case errors.As(err, &refused):
		return "never"
	case errors.As(err, &retry) && retry.Receiver && retry.After == 0:
		return "waits"
	case errors.As(err, &retry) && retry.After > 0:
		return "later " + retry.After.String()
	case errors.As(err, &retry):
		return "later"
	}
	return "untyped: " + err.Error()
}

func TestANetworkFailureIsRetriedAndReportedWithoutTheAddress(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	untrusted := httptest.NewTLSServer(http.HandlerFunc(taken))
	untrusted.Config.ErrorLog = log.New(io.Discard, "", 0)
	defer untrusted.Close()
	release := make(chan struct{})
	slow := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) {
		_, _ = io.Copy(io.Discard, q.Body)
		<-release
	}))
	defer slow.Close()
	defer close(release)
	cut := receive(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	for where, want := range map[string]string{
		gone.URL:                       "the connection is refused",
		untrusted.URL:                  "the host's certificate is not trusted",
		slow.URL:                       "no answer in time",
		cut.URL:                        "the connection broke, or the other side does not follow the protocol",
		"https://doorbell-zq7.invalid": "the host is not found",
	} {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if where == slow.URL {
			ctx, cancel = context.WithTimeout(t.Context(), 300*time.Millisecond)
		}
		err := open(t, webhook.Options{URL: where + "/sentinel-token"}).Send(ctx, one(lead(t)))
		cancel()
		var retry *forward.Retry
		if !errors.As(err, &retry) || retry.Reason != want {
			t.Errorf("it says %v, want %q", err, want)
			continue
		}
		if whole := where == slow.URL || where == cut.URL; retry.Unanswered != whole || retry.Receiver == whole {
			t.Errorf("%s: %+v", want, retry)
		}
	}
}

func TestAnEndlessResponseIsGivenUpOn(t *testing.T) {
	raw := func(begin, again string) http.HandlerFunc { // then, as long as the other side takes it
		return func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				panic(err)
			}
			defer conn.Close()
			_, err = fmt.Fprint(conn, begin)
			for again != "" && err == nil {
				_, err = fmt.Fprint(conn, again)
			}
			_, _ = io.Copy(io.Discard, conn) // until the other side closes
		}
	}
	for want, answer := range map[string]http.HandlerFunc{
		"done":  raw("HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n", strings.Repeat("x", 8000)),
		"waits": raw("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n", ""),
		"later": raw("HTTP/1.1 200 OK\r\n", "X-Long: "+strings.Repeat("a", 8000)+"\r\n"),
	} {
		r := receive(t, answer)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if got := outcome(open(t, webhook.Options{URL: r.URL}).Send(ctx, one(lead(t)))); got != want || ctx.Err() != nil {
			t.Errorf("it is %q, want %q", got, want)
		}
	}
}

func TestInvalidAddressesAndSecretsAreRefusedWithoutQuotingThem(t *testing.T) {
	const good = "https://hooks.example.com/sentinel-token"
	short := "whsec_" + base64.StdEncoding.EncodeToString([]byte("sentinel-token"))
	for _, c := range []struct {
		url, secrets string
		want         error
	}{
		{good, secrets[0], nil},
		{good, "", nil},
		{"http://hooks.internal/x", "", nil},
		{"http://127.0.0.1.example.com/sentinel-token", "", forward.ErrPlaintext},
		{"https://sentinel-token@hooks.example.com/", "", forward.ErrAddress},
		{good, "sentinel-token", webhook.ErrSecret},
		{good, "whsec_sentinel-token!", webhook.ErrSecret},
		{good, short, webhook.ErrSecret},
		{good, secrets[0] + " sentinel-token", webhook.ErrSecret},
		{good, secrets[0] + " " + secrets[1] + " " + secrets[0], webhook.ErrSecret},
		{good, "whsec_" + base64.StdEncoding.EncodeToString(make([]byte, 65)), webhook.ErrSecret},
	} {
		w, err := webhook.New(webhook.Options{URL: c.url, Secrets: c.secrets, AllowPlaintext: []string{"hooks.internal"}})
		if !errors.Is(err, c.want) || (err == nil) != (w != nil) {
			t.Errorf("%s with a secret of %d characters: %v, want %v", c.url, len(c.secrets), err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "sentinel-token") {
			t.Error("the error quotes what it refuses")
		}
	}
}

// TestTheTraits: the destination tells addresses apart and shows the host alone. A digest is refused.
func TestTheTraits(t *testing.T) {
	destination := func(address, secret string) string {
		return open(t, webhook.Options{URL: address, Secrets: secret}).Traits().Destination
	}
	const address = "https://hooks.example.com/sentinel-token"
	of := destination(address, "")
	if !strings.HasPrefix(of, "hooks_example_com-") || strings.Contains(of, "sentinel") || destination(address, secrets[0]) != of || destination(address+"?a=1", "") == of {
		t.Errorf("the destination is %q", of)
	}
	if long := destination("https://"+strings.Repeat("long.", 40)+"example/x", ""); len(long) > 64 {
		t.Errorf("the destination is %q", long)
	}
	w := open(t, webhook.Options{URL: "http://127.0.0.1:1"})
	err := w.Send(t.Context(), forward.Delivery{Events: []events.Event{lead(t), lead(t)}})
	if w.Traits().Digest > 1 || outcome(err) != "certainly never" {
		t.Errorf("a digest: %v", err)
	}
}
