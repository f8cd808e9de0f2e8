package events_test

import (
	"encoding/json"
	"testing"
	"time"

	"doorbell/events"
)

func TestTheHeadOfAnEventIsWhatTheWholeEventSays(t *testing.T) {
	const reference = `a,"data":{"b":1}\,\"data\":`
	e, err := events.New(&events.ContactRequestCreated{
		Common: events.Common{AgencyID: "A100", Origin: events.OriginBaseline, ObservedAt: time.Now()}, PropertyReferenceID: reference,
		ContactRequestID: "1", Record: json.RawMessage(`{"x":",\"data\":","data":{"id":"no"}}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	e = e.Stamp(77, time.Date(2026, 11, 20, 9, 41, 7, 120e6, time.UTC), "store")
	line, err := e.AppendJSON(nil)
	if err != nil {
		t.Fatal(err)
	}
	h, err := events.DecodeHead(line)
	if want := (events.Head{ID: e.ID, Type: e.Type, Origin: e.Origin, Sequence: 77, RecordedTime: e.RecordedTime}); err != nil || h != want {
		t.Errorf("the head is %+v, %v, not %+v", h, err, want)
	}
}

func TestWhatIsNoEventHasNoHead(t *testing.T) {
	for _, line := range []string{
		"", "{}", `{"id":"x","data":`, `{"id":"x","data":{}}`, `,"data":{}`,
		`{"id":"x","sequence":"1","recordedtime":"2026-11-20T09:41:07Z","data":{}}`,
		`{"id":"x","sequence":"00000000000000000001","recordedtime":"yesterday","data":{}}`,
	} {
		if h, err := events.DecodeHead([]byte(line)); err == nil {
			t.Errorf("%s has the head %+v", line, h)
		}
	}
}
