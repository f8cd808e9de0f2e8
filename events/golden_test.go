package events_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"doorbell/events"
)

var update = flag.Bool("update", false, "write testdata/golden anew: consumers rely on these bytes, so review the difference")

// TestTheBytesOfAnEventNeverChange compares what is published with testdata/golden, byte for byte: the headers in the order
// of their names, the payload, and the line of CloudEvents JSON. What is pinned is also read back.
func TestTheBytesOfAnEventNeverChange(t *testing.T) {
	pinned := map[string]bool{}
	for name, e := range goldenEvents(t) {
		file := filepath.Join("testdata", "golden", name+".txt")
		pinned[file] = true
		t.Run(name, func(t *testing.T) {
			line, err := e.AppendJSON(nil)
			must(t, err)
			var got bytes.Buffer
			header := e.Header()
			for _, key := range slices.Sorted(maps.Keys(header)) {
				got.WriteString(key + ": " + strings.Join(header[key], "\n") + "\n")
			}
			got.WriteString("\n" + string(e.Data) + "\n\n" + string(line) + "\n")
			if *update {
				must(t, os.WriteFile(file, got.Bytes(), 0o600))
			}
			want, err := os.ReadFile(file)
			must(t, err)
			if !bytes.Equal(got.Bytes(), want) {
				t.Errorf("published as\n%s\nwant\n%s", got.Bytes(), want)
			}
			checkRoundTrips(t, e)
		})
	}
	files, err := filepath.Glob(filepath.Join("testdata", "golden", "*.txt"))
	must(t, err)
	for _, file := range files {
		if !pinned[file] {
			t.Errorf("%s no longer pins an event", file)
		}
	}
}

// goldenEvents are events that are hard to encode. An event of each type is pinned as an example in schemas.
func goldenEvents(t *testing.T) map[string]events.Event {
	stamped := func(p events.Payload) events.Event {
		return newEvent(t, p).Stamp(1842, at("2026-11-20T10:41:43.500999+01:00"), "k3v7c2m5q4xw6zta")
	}
	golden := map[string]events.Event{}
	appeared := func(change func(*events.InsertionAppeared)) events.Payload {
		p := exampleOf[*events.InsertionAppeared](t, events.TypeInsertionAppeared)
		p.Insertion, p.Record = events.InsertionSummary{}, json.RawMessage(`{}`)
		change(p)
		return p
	}
	for name, p := range map[string]events.Payload{
		"reference.empty":     appeared(func(p *events.InsertionAppeared) { p.PropertyReferenceID = "" }),
		"reference.segments":  appeared(func(p *events.InsertionAppeared) { p.PropertyReferenceID = "a###" }),
		"reference.non-ascii": appeared(func(p *events.InsertionAppeared) { p.PropertyReferenceID = "Zürich 50%#\"1\"#\u2028#😀" }),
		"reference.controls":  appeared(func(p *events.InsertionAppeared) { p.PropertyReferenceID = "a\r\nNats-Rollup: all\x00\x7f\t" }),
		"reference.invalid":   appeared(func(p *events.InsertionAppeared) { p.PropertyReferenceID = "caf\xe9#\xed\xa0\x80" }),
		"reference.long":      appeared(func(p *events.InsertionAppeared) { p.PropertyReferenceID = strings.Repeat("ä", 86) }),
		"agency.odd":          appeared(func(p *events.InsertionAppeared) { p.AgencyID = "A 1.ä*" }),
		"agency.long":         appeared(func(p *events.InsertionAppeared) { p.AgencyID = strings.Repeat("#", 30) }),

		// What the API wrote stays: order, digits, escapes, names twice. White space goes, what is no UTF-8 becomes U+FFFD.
		"record.order": appeared(func(p *events.InsertionAppeared) {
			p.Record = json.RawMessage("\n{ \"z\" : 1 ,\t\"a\":[ 1 , { \"y\":2,\r\n\"b\":[ ] } ],\"z\" : 3 , \"\" : { } }\n")
		}),
		"record.numbers": appeared(func(p *events.InsertionAppeared) {
			p.Record = json.RawMessage(`{"n":9007199254740993,"m":123456789012345678901234567890,"f":1.50,"e":1E+400,"z":-0,"s":0.1e-7}`)
			p.Insertion.Rooms, p.Insertion.LivingSpace = "3.50", "9007199254740993"
			p.Insertion.Price = &events.Price{Amount: "1e3"}
		}),
		"record.escapes": appeared(func(p *events.InsertionAppeared) {
			p.Record = json.RawMessage("{\"<&>\":\"<&> \u2028\u2029 \\u2028 \\u003c \\/ \\u00e4 \x7f \\u0000 \\\" \\\\\"}")
			p.Insertion.Title = "<&> \u2028\u2029 / ä \x7f\x00\b\f\n\r\t\x1f\"\\😀"
		}),
		"record.surrogates": appeared(func(p *events.InsertionAppeared) {
			p.Record = json.RawMessage(`{"half":"\ud800","low":"\udc00x","pair":"\ud83d\ude00","turned":"\ude00\ud83d","\ud800":1}`)
			p.Defects = []string{"half a surrogate pair"}
		}),
		"record.invalid": appeared(func(p *events.InsertionAppeared) {
			p.Record = json.RawMessage("{\"caf\xe9\":\"\xff\xfe a \xed\xa0\x80 \xe2\x80\",\"ok\":\"\uFFFD\"}")
			p.Insertion.Title = "caf\xe9 \xff\xfe \xed\xa0\x80 \xe2\x80 \uFFFD"
		}),
		"record.text": appeared(func(p *events.InsertionAppeared) { p.Record = json.RawMessage(` "no object" `) }),
		"record.none": appeared(func(p *events.InsertionAppeared) { p.Record = nil }),

		"changes.raw": func() events.Payload {
			p := exampleOf[*events.InsertionChanged](t, events.TypeInsertionChanged)
			p.Record = json.RawMessage(`{}`)
			p.Changes = []events.Change{
				{Path: "/a~1<ä>", Before: json.RawMessage(" [ 1 , 1.0 ] "), After: json.RawMessage("null")},
				{Path: "/n", Before: json.RawMessage("9007199254740992"), After: json.RawMessage("9007199254740993")},
				{Path: "/t", After: json.RawMessage("\"<&> \u2028\"")},
				{Path: "", Before: json.RawMessage("{ }")},
			}
			return p
		}(),
		"changes.capped": func() events.Payload {
			p := exampleOf[*events.InsertionReappeared](t, events.TypeInsertionReappeared)
			p.Changes = []events.Change{{Path: "/a", Before: json.RawMessage("1")}, {Path: "/b", After: json.RawMessage(`"` + strings.Repeat("x", 70_000) + `"`)}}
			return p
		}(),
		"score.null":   scored(t, "null"),
		"score.text":   scored(t, `"very <high>"`),
		"score.object": scored(t, ` { "value" : 72.50 } `),
		"times.zones": appeared(func(p *events.InsertionAppeared) {
			p.ObservedAt = time.Date(2026, 11, 20, 10, 41, 7, 39_999_999, time.FixedZone("", 3600))
			p.ObservedAfter = time.Date(2026, 11, 20, 9, 41, 7, 999_999, time.UTC)
		}),
		"times.unwritable": appeared(func(p *events.InsertionAppeared) {
			p.ObservedAt, p.ObservedAfter = time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(-1, 1, 1, 0, 0, 0, 7, time.UTC)
		}),
		"times.text": appeared(func(p *events.InsertionAppeared) { p.Insertion.Title = "2026-11-20T09:41:07.5Z" }),
		"baseline":   appeared(func(p *events.InsertionAppeared) { p.Origin = events.OriginBaseline }),
		"stale.many": func() events.Payload {
			p := exampleOf[*events.WatchStale](t, events.TypeWatchStale)
			p.Errors = nil
			for i := range 12 {
				p.Errors = append(p.Errors, events.StaleError{At: at("2026-11-21T02:13:02.120Z"), Class: "transient", Status: 500 + i})
			}
			return p
		}(),
	} {
		golden[name] = stamped(p)
	}

	golden["replay"] = golden["record.escapes"].WithOrigin(events.OriginReplay)
	golden["store.none"] = newEvent(t, appeared(func(*events.InsertionAppeared) {})).Stamp(1, at("2026-11-20T09:41:43Z"), "")
	return golden
}

func scored(t *testing.T, score string) events.Payload {
	p := exampleOf[*events.ContactRequestCreated](t, events.TypeContactRequestCreated)
	p.Score, p.Record = json.RawMessage(score), json.RawMessage(`{}`)
	return p
}
