package events

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestAnotherOriginChangesNothingElse(t *testing.T) {
	e, err := New(&InsertionAppeared{
		Common: Common{AgencyID: "A100", ObservedAt: time.Date(2026, 11, 20, 8, 0, 0, 120e6, time.UTC)}, PropertyReferenceID: "a\u2028#<b>", Episode: 1,
		Record: []byte(`{"origin":"live","n":9007199254740993,"z":1.50,"a":"\u00e4 <&>","b":[{"origin":"live"}]}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	e = e.Stamp(7, time.Now(), "store")
	before := bytes.Clone(e.Data)
	again := e.WithOrigin(OriginReplay)
	if want := strings.Replace(string(before), `"origin":"live"`, `"origin":"replay"`, 1); string(again.Data) != want {
		t.Errorf("the payload is %s, want %s", again.Data, want)
	}
	if again.Origin != OriginReplay || again.Header()["ce-origin"][0] != "replay" || again.ID != e.ID || again.Sequence != 7 || !again.Time.Equal(e.Time) {
		t.Errorf("the envelope is %v", again.Header())
	}
	if !bytes.Equal(e.Data, before) || e.Origin != OriginLive {
		t.Error("the event it was made of is another one now")
	}
	read, err := Decode(again.Header(), again.Data)
	if err != nil || read.Origin != OriginReplay {
		t.Errorf("read again: %v, %v", read.Origin, err)
	}
}
