package stream

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"doorbell/events/helptest"
	"doorbell/events/natsd/natsdtest"

	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"
)

var must = helptest.Must

func TestMain(m *testing.M) {
	helptest.KeepInMemory()
	goleak.VerifyTestMain(m)
}

func wanted() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name: "LETTERS", Subjects: []string{"listings.dlq.>"}, Storage: jetstream.FileStorage, Discard: jetstream.DiscardNew,
		MaxAge: time.Hour, MaxBytes: 1 << 20, Replicas: 1, Duplicates: 2 * time.Minute, AllowDirect: true,
	}
}

// exists makes a stream.
func exists(t *testing.T, js jetstream.JetStream, c jetstream.StreamConfig) {
	t.Helper()
	_, err := js.CreateStream(t.Context(), c)
	must(t, err)
}

func TestAStreamIsMadeWhereThatIsAllowedAndChangedOnlyOnOurOwnServer(t *testing.T) {
	js := natsdtest.Embedded(t)
	if _, err := Ensure(t.Context(), js, wanted(), Rights{}); !errors.Is(err, ErrMissing) {
		t.Errorf("created without permission: %v", err)
	}
	if f, err := Ensure(t.Context(), js, wanted(), Rights{Manage: true}); err != nil || !f.Made {
		t.Errorf("%+v, %v", f, err)
	}
	if f, err := Ensure(t.Context(), js, wanted(), Rights{}); err != nil || f.Made || len(f.Different) > 0 {
		t.Errorf("%+v, %v", f, err)
	}
	c := wanted()
	c.MaxAge = 2 * time.Hour
	f, err := Ensure(t.Context(), js, c, Rights{Manage: true})
	if err != nil || !slices.Equal(f.Different, []string{"max age is 1h0m0s, should be 2h0m0s"}) || f.Info.Config.MaxAge != time.Hour {
		t.Errorf("%+v, %v", f, err)
	}
	f, err = Ensure(t.Context(), js, c, Rights{Embedded: true})
	if err != nil || len(f.Different) > 0 || f.Info.Config.MaxAge != 2*time.Hour {
		t.Errorf("%+v, %v", f, err)
	}
	c.Storage = jetstream.MemoryStorage // what no server changes
	f, err = Ensure(t.Context(), js, c, Rights{Embedded: true})
	if err == nil || len(f.Different) != 1 || f.Info == nil {
		t.Errorf("%+v, %v", f, err)
	}
}

func TestAStreamThatCannotHoldWhatIsPublishedIsUnfit(t *testing.T) {
	js := natsdtest.Embedded(t)
	exists(t, js, jetstream.StreamConfig{Name: "ALL", Subjects: []string{"listings.>"}})
	if _, err := Ensure(t.Context(), js, wanted(), Rights{Manage: true}); err == nil || !strings.Contains(err.Error(), "subjects overlap") {
		t.Errorf("where another one has the subjects: %v", err)
	}
	c := wanted()
	c.Name = "ALL"
	if f, err := Ensure(t.Context(), js, c, Rights{Manage: true}); err != nil || len(f.Different) == 0 {
		t.Errorf("a wider one: %+v, %v", f, err)
	}
	for what, change := range map[string]func(*jetstream.StreamConfig){
		"do not cover listings.dlq.>": func(c *jetstream.StreamConfig) { c.Subjects = []string{"other.>"} },
		"only small messages":         func(c *jetstream.StreamConfig) { c.MaxMsgSize = 100 },
		"does not acknowledge":        func(c *jetstream.StreamConfig) { c.NoAck = true },
		"transforms subjects":         func(c *jetstream.StreamConfig) { c.SubjectTransform = &jetstream.SubjectTransformConfig{} },
		"before it writes":            func(c *jetstream.StreamConfig) { c.PersistMode = jetstream.AsyncPersistMode },
	} {
		have := wanted()
		change(&have)
		if err := Unfit(wanted(), have); !errors.Is(err, ErrUnfit) || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestSubjectsCoverOthers(t *testing.T) {
	for _, c := range []struct {
		have string
		want bool
	}{
		{"listings.v1.>", true},
		{"listings.>", true},
		{">", true},
		{"*.v1.>", true},
		{"*.*.>", true},
		{"listings.v1.*", false},
		{"listings.v1.A100.>", false},
		{"listings.v2.>", false},
		{"listings.v1", false},
	} {
		if got := covers(c.have, "listings.v1.>"); got != c.want {
			t.Errorf("covers(%q) = %v", c.have, got)
		}
	}
}
