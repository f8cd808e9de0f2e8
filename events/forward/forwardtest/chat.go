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
	New    func(forward.Hook) (*forward.Messenger, error)
	Path   string // of its webhook
	Render func(full bool, d forward.Delivery) []byte
	Check  func(body []byte) error // fails where the service would not take a message
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

// Receiver runs the suite with the checks of the service. The address and these must not be in errors.
func (c Chat) Receiver(t *testing.T, good Reply, replies []Reply, secrets ...string) {
	s := HTTP(func(t *testing.T, url string) forward.Receiver {
		m, err := c.New(forward.Hook{URL: url + c.Path})
		must(t, err)
		return m
	}, good, replies)
	s.Secrets = append(secrets, c.Path)
	s.Check = func(t *testing.T, m string) {
		_, body, _ := strings.Cut(m, "\r\n\r\n")
		if err := c.Check([]byte(body)); err != nil {
			t.Error(err)
		}
	}
	Receiver(t, s)
}

// Addresses wants addresses to be refused with these words, which quote none of them, and others to
// be taken.
func (c Chat) Addresses(t *testing.T, refused map[string]string, taken ...forward.Hook) {
	for url, want := range refused {
		_, err := c.New(forward.Hook{URL: url})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "sEcReT") {
			t.Errorf("%q: %v, want %s", url, err, want)
		}
	}
	for _, h := range taken {
		if _, err := c.New(h); err != nil {
			t.Errorf("%+v: %v", h, err)
		}
	}
}

// Objects visits every object of a JSON text.
func Objects(body []byte, visit func(map[string]any) error) error {
	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		return err
	}
	var walk func(any) error
	walk = func(v any) error {
		switch v := v.(type) {
		case map[string]any:
			if err := visit(v); err != nil {
				return err
			}
			for _, member := range v {
				if err := walk(member); err != nil {
					return err
				}
			}
		case []any:
			for _, member := range v {
				if err := walk(member); err != nil {
					return err
				}
			}
		}
		return nil
	}
	return walk(value)
}

// Pinned compares the message of each sample with its file in testdata, or writes the files.
func (c Chat) Pinned(t *testing.T, update bool) {
	Pinned(t, update, ".json", func(s Sample) []byte {
		body := c.Body(t, s.Full, s.Delivery)
		if err := c.Check(body); err != nil {
			t.Errorf("%s: %v", s.Name, err)
		}
		var b bytes.Buffer
		must(t, json.Indent(&b, body, "", " "))
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
			must(t, os.WriteFile(file, got, 0o644))
			continue
		}
		want, err := os.ReadFile(file)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s differs (%v); look at the difference, then run the test of this package with -update", file, err)
		}
	}
	files, err := filepath.Glob("testdata/*" + suffix)
	must(t, err)
	for _, file := range files {
		if !slices.Contains(names, file) {
			t.Errorf("%s belongs to no sample", file)
		}
	}
}

// Limits checks that the service takes the longest and worst texts, in one event and in many.
func (c Chat) Limits(t *testing.T) {
	for i, piece := range Worst {
		for k, n := range []int{1, 60} {
			text := strings.Repeat(piece, 20_000/n/len(piece))
			for _, list := range [][]events.Event{WorstAlerts(t, text, n), WorstRequests(t, text, n, (i+k)%2 == 0)} {
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
