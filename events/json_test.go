package events_test

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"doorbell/events"
)

// checkRoundTrips writes an event both ways and reads it again.
func checkRoundTrips(t testing.TB, e events.Event) {
	t.Helper()
	line, err := e.AppendJSON(nil)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.ContainsAny(line, "\n\r") {
		t.Fatalf("more than one line: %q", line)
	}
	var fromLine events.Event
	if err := json.Unmarshal(line, &fromLine); err != nil {
		t.Fatalf("%v\n%s", err, line)
	}
	if entry, err := events.Entry(fromLine.AgencyID, line); err != nil || !reflect.DeepEqual(entry, fromLine) {
		t.Fatalf("the line\n%s\nof a known agency came back as\n%+v, %v\nnot as\n%+v", line, entry, err, fromLine)
	}
	again, err := fromLine.AppendJSON(nil)
	if err != nil || !bytes.Equal(again, line) {
		t.Fatalf("the line\n%s\ncame back as\n%s\n%v", line, again, err)
	}
	fromHeader, err := events.Decode(fromLine.Header(), fromLine.Data)
	if err != nil {
		t.Fatal(err)
	}
	if len(fromLine.Header()["ce-subject"]) == 0 {
		fromHeader.Reference = fromLine.Reference // too long for a header
	}
	if !reflect.DeepEqual(fromHeader, fromLine) {
		t.Fatalf("the event\n%+v\ncame back from its headers as\n%+v", fromLine, fromHeader)
	}
}

func TestAnEventComesBackFromItsLineByteForByte(t *testing.T) {
	for _, kind := range events.Types {
		e := exampleEvent(t, kind)
		line, err := e.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		var back events.Event
		if err := back.UnmarshalJSON(line); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(back, e) {
			t.Errorf("%s\ngot  %+v\nwant %+v", kind, back, e)
		}
		if _, err := events.Entry("B200", line); err == nil {
			t.Errorf("%s is an event of another agency", kind)
		}
		checkRoundTrips(t, e)
	}
}

func TestALineHasTheMembersOfCloudEvents(t *testing.T) {
	e := exampleEvent(t, events.TypeAccessResumed)
	e.Reference = "Zürich <1>##"
	e.Data = json.RawMessage("{ \"agencyId\": \"A100\",\n \"origin\": \"live\", \"n\": 1.50, \"html\": \"<&>\" }")
	line, err := e.AppendJSON([]byte("> "))
	if err != nil {
		t.Fatal(err)
	}
	want := `> {"specversion":"1.0","id":"` + e.ID + `","source":"/agencies/A100","type":"access.resumed",` +
		`"subject":"Zürich <1>##","time":"2026-11-20T15:41:08.213Z","datacontenttype":"application/json",` +
		`"dataschema":"urn:doorbell:schema:access.resumed:v1","sequence":"00000000000000001918","partitionkey":"A100",` +
		`"recordedtime":"2026-11-20T15:41:08.215Z","origin":"live","storeid":"k3v7c2m5q4xw6zta",` +
		`"data":{"agencyId":"A100","origin":"live","n":1.50,"html":"<&>"}}`
	if string(line) != want {
		t.Errorf("got  %s\nwant %s", line, want)
	}
}

func TestJSONMarshalGivesTheSameEventInOtherBytes(t *testing.T) {
	e := exampleEvent(t, events.TypeAccessResumed)
	e.Data = json.RawMessage(`{"agencyId":"A100","origin":"live","html":"<&>"}`)
	line, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	var back events.Event
	if err := json.Unmarshal(line, &back); err != nil {
		t.Fatal(err)
	}
	if string(back.Data) != `{"agencyId":"A100","origin":"live","html":"\u003c\u0026\u003e"}` {
		t.Errorf("data is %s", back.Data)
	}
}

func TestDataThatIsNoJSONCannotBeALine(t *testing.T) {
	const secret = "nora.beispiel"
	e := exampleEvent(t, events.TypeAccessResumed)
	e.Data = json.RawMessage(`{"agencyId":` + secret)
	if line, err := e.AppendJSON([]byte("kept")); err == nil || strings.Contains(err.Error(), secret) || string(line) != "kept" {
		t.Errorf("got %s, %v", line, err)
	}
}

func TestWhatIsNoLineOfOursIsAnErrorAndChangesNothing(t *testing.T) {
	const secret = "nora.beispiel"
	line, err := exampleEvent(t, events.TypeWatchStale).AppendJSON(nil)
	if err != nil {
		t.Fatal(err)
	}
	whole := string(line)
	for _, line := range []string{
		``, `null`, `[]`, `{}`, secret, `{"id":{"` + secret + `":1}}`,
		`{"specversion":"1.0","id":"a","type":"a.b","data":{"agencyId":"A100","origin":"live"}}`,
		whole[:len(whole)-1], whole + "}",
	} {
		e := exampleEvent(t, events.TypeAccessResumed)
		if err := e.UnmarshalJSON([]byte(line)); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: error is %v", line, err)
		}
		if !reflect.DeepEqual(e, exampleEvent(t, events.TypeAccessResumed)) {
			t.Errorf("%s: the event changed", line)
		}
		if _, err := events.Entry(e.AgencyID, []byte(line)); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s of a known agency: error is %v", line, err)
		}
	}
}

func TestAnEventThatWasNotAppendedHasNoSequence(t *testing.T) {
	e := exampleEvent(t, events.TypeWatchStale)
	e.Sequence = 0
	line, err := e.AppendJSON(nil)
	if err != nil || bytes.Contains(line, []byte(`"sequence"`)) {
		t.Fatalf("written as %s, %v", line, err)
	}
	var back events.Event
	if err := back.UnmarshalJSON(line); err != nil || back.Sequence != 0 || back.ID != e.ID {
		t.Errorf("comes back as %+v, %v", back, err)
	}
	if _, err := events.Decode(e.Header(), e.Data); err == nil {
		t.Error("a message without a sequence is an event")
	}
}
