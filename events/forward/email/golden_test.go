package email

import (
	"bytes"
	"flag"
	"regexp"
	"strings"
	"testing"
	"time"

	"doorbell/events/forward"
	"doorbell/events/forward/forwardtest"
)

var update = flag.Bool("update", false, "write the golden mails of testdata anew")

// now is shortly after what the examples tell of.
var now = time.Date(2026, 11, 20, 9, 42, 1, 0, time.UTC)

func newReceiver(t testing.TB, change func(*Options)) *Receiver {
	t.Helper()
	zurich, err := time.LoadLocation("Europe/Zurich")
	if err != nil {
		t.Fatal(err)
	}
	o := Options{
		SMTP: "smtp://mail.agency.example:587", From: "Doorbell <doorbell@agency.example>",
		To: "Lettings <office@agency.example>", OpenImmo: true, Location: zurich,
	}
	if change != nil {
		change(&o)
	}
	receiver, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return receiver
}

var boundary = regexp.MustCompile(`[0-9a-f]{60}`)

// textOf is the mail as it is sent.
func textOf(t testing.TB, m draft) []byte {
	t.Helper()
	g, err := m.mail()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if _, err := g.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// written is the mail with boundaries that do not change.
func written(t testing.TB, m draft) string {
	t.Helper()
	text := textOf(t, m)
	names := map[string]string{}
	return boundary.ReplaceAllStringFunc(string(text), func(b string) string {
		if names[b] == "" {
			names[b] = "boundary" + string(rune('A'+len(names)))
		}
		return names[b]
	})
}

// sample is the delivery of a sample.
func sample(t testing.TB, name string) forward.Delivery {
	for _, s := range forwardtest.Samples(t) {
		if s.Name == name {
			return s.Delivery
		}
	}
	t.Fatal("no such sample")
	return forward.Delivery{}
}

func TestMailsLookAsTheyArePinned(t *testing.T) {
	o := newReceiver(t, nil)
	forwardtest.Pinned(t, *update, ".eml", func(s forwardtest.Sample) []byte {
		if strings.HasSuffix(s.Name, ".full") { // a mail always shows the whole person
			return nil
		}
		return []byte(written(t, o.compose(s.Delivery, now)))
	})
}
