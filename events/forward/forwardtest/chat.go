package forwardtest

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/events/forward"
)

// Chat is a chat service under test.
type Chat struct {
	New    func(url string) (*forward.Messenger, error)
	Path   string // of its webhook
	Render func(full bool, d forward.Delivery) []byte
	Check  func(body []byte) error // fails where the service would not take a message
}

// At returns the receiver for the webhook at a host.
func (c Chat) At(t testing.TB, host string) *forward.Messenger {
	t.Helper()
	m, err := c.New(host + c.Path)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Body returns the message of a delivery.
func (c Chat) Body(t testing.TB, full bool, d forward.Delivery) []byte {
	t.Helper()
	body := c.Render(full, d)
	if body == nil {
		t.Fatal("the message is too large")
	}
	return body
}

// Suite is [HTTP] with the checks of the service.
func (c Chat) Suite(good Reply, replies []Reply) Suite {
	s := HTTP(func(t *testing.T, url string) forward.Receiver { return c.At(t, url) }, good, replies)
	s.Check = func(t *testing.T, m string) {
		_, body, _ := strings.Cut(m, "\r\n\r\n")
		if err := c.Check([]byte(body)); err != nil {
			t.Error(err)
		}
	}
	return s
}

// Pinned compares the message of each sample with its file in testdata, or writes the files.
func (c Chat) Pinned(t *testing.T, update bool) {
	Pinned(t, update, ".json", func(s Sample) []byte {
		body := c.Body(t, s.Full, s.Delivery)
		if err := c.Check(body); err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
		var b bytes.Buffer
		if err := json.Indent(&b, body, "", " "); err != nil {
			t.Fatal(err)
		}
		return append(b.Bytes(), '\n')
	})
}

// Pinned compares what is made of each sample with its file in testdata, or writes the files. Nil: a
// sample is left out.
func Pinned(t *testing.T, update bool, suffix string, made func(Sample) []byte) {
	var names []string
	for _, s := range Samples(t) {
		got, file := made(s), filepath.Join("testdata", s.Name+suffix)
		if got == nil {
			continue
		}
		names = append(names, file)
		if update {
			if err := os.WriteFile(file, got, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(file)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s differs (%v); look at the difference, then run the test of this package with -update", file, err)
		}
	}
	files, err := filepath.Glob("testdata/*" + suffix)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !slices.Contains(names, file) {
			t.Errorf("%s is of no sample", file)
		}
	}
}

// Limits checks that the service takes the longest and worst texts, in one event and in many. With
// more rounds it draws more of them.
func (c Chat) Limits(t *testing.T, rounds int) {
	for i, piece := range Worst {
		for k, n := range []int{1, 60, 2, 20}[:2*min(rounds, 2)] {
			text := strings.Repeat(piece, 20_000/n/len(piece))
			lists := [][]events.Event{WorstAlerts(t, text, n), WorstRequests(t, text, n, (i+k)%2 == 0)}
			if rounds > 1 {
				lists = append(lists, WorstRequests(t, text, n, (i+k)%2 != 0))
			}
			for _, list := range lists {
				for _, full := range []bool{true, false} {
					if err := c.Check(c.Render(full, forward.Delivery{Events: list})); err != nil {
						t.Errorf("%d of %.20q: %v", n, piece, err)
					}
				}
			}
		}
	}
}

// Fuzz checks that the service takes every message, whatever an event contains. The texts are where
// it begins.
func (c Chat) Fuzz(f *testing.F, texts ...string) {
	for _, k := range events.Types {
		f.Add(string(k), []byte(Example(f, k).Data), texts[0], "A100", true, uint8(1))
	}
	for _, w := range texts {
		f.Add("contact_request.created", []byte(Example(f, events.TypeContactRequestCreated).Data), strings.Repeat(w, 200), w, false, uint8(20))
	}
	f.Fuzz(func(t *testing.T, kind string, data []byte, text, agency string, full bool, n uint8) {
		e := events.Event{
			ID: text, Type: events.Type(kind), AgencyID: agency, Reference: text, Data: data,
			Time: time.Date(2026, 11, 20, 9, 42, 0, 0, time.UTC),
		}
		d := forward.Delivery{Events: []events.Event{e}, Test: n%7 == 0}
		for i := range n % 22 {
			count := int(i)
			e.Data = Fill(data, func(old string) string { // now and then the old one stays
				if count++; count%3 == 0 {
					return old
				}
				return text
			})
			d.Events = append(d.Events, e)
		}
		if body := c.Render(full, d); body != nil {
			if err := c.Check(body); err != nil {
				t.Fatalf("%v\n%s", err, body)
			}
		}
	})
}

// OneLead is a delivery of one contact request.
func OneLead(t testing.TB) forward.Delivery {
	return forward.Delivery{Events: []events.Event{Example(t, events.TypeContactRequestCreated)}}
}

// Crowd are contact requests of 20 people, Person A to T, all with a long text, about one insertion
// or about 20: the longest list that is sent.
func Crowd(t testing.TB, piece string, same bool) (list []events.Event) {
	text := strings.Repeat(piece, 1_000/len(piece))
	for i := range 20 {
		e := Request(t, func(p *events.ContactRequestCreated) {
			p.Contact.FirstName, p.Contact.LastName, p.Insertion.Title = "Person"+string(rune('A'+i)), text, text
		})
		if !same {
			e.Reference = string(rune('a' + i))
		}
		list = append(list, e)
	}
	return list
}
