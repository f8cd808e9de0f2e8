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
	must(t, err)
	if bytes.ContainsAny(line, "\n\r") {
		t.Fatalf("more than one line: %q", line)
	}
	var fromLine events.Event
	if err := json.Unmarshal(line, &fromLine); err != nil {
		t.Fatalf("%v\n%s", err, line)
	}
	again, err := fromLine.AppendJSON(nil)
	if err != nil || !bytes.Equal(again, line) {
		t.Fatalf("the line\n%s\ncame back as\n%s\n%v", line, again, err)
	}
	fromHeader, err := events.Decode(fromLine.Header(), fromLine.Data)
	must(t, err)
	if len(fromLine.Header()["ce-subject"]) == 0 {
		fromHeader.Reference = fromLine.Reference // too long for a header
	}
	if !reflect.DeepEqual(fromHeader, fromLine) {
		t.Fatalf("the event\n%+v\ncame back from its headers as\n%+v", fromLine, fromHeader)
	}
}

func TestDataThatIsNotJSONCannotBeALine(t *testing.T) {
	const secret = "nora.beispiel"
	e := exampleEvent(t, events.TypeAccessResumed)
	e.Data = json.RawMessage(`{"agencyId":` + secret)
	if line, err := e.AppendJSON([]byte("kept")); err == nil || strings.Contains(err.Error(), secret) || string(line) != "kept" {
		t.Errorf("got %s, %v", line, err)
	}
}

func TestAForeignLineIsAnErrorAndChangesNothing(t *testing.T) {
	const secret = "nora.beispiel"
	line, err := exampleEvent(t, events.TypeWatchStale).AppendJSON(nil)
	must(t, err)
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
