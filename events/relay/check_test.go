package relay

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

func TestACheckFindsWhatIsThereAndChangesNothing(t *testing.T) {
	b := newBell(t)
	b.o.Embedded = false
	if f, err := Check(t.Context(), b.o); err != nil || !f.Missing {
		t.Errorf("without a stream: %+v, %v", f, err)
	}
	b.o.Manage = false
	if _, err := Check(t.Context(), b.o); !errors.Is(err, ErrNoStream) {
		t.Errorf("without a stream that may be made: %v", err)
	}
	b.o.Manage = true
	if _, err := b.js.Stream(t.Context(), b.o.Stream); !errors.Is(err, jetstream.ErrStreamNotFound) {
		t.Errorf("a stream was made: %v", err)
	}
	c := jetstream.StreamConfig{Name: "OTHER", Subjects: []string{"listings.>"}, MaxMsgSize: 1000}
	if _, err := b.js.CreateStream(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if _, err := Check(t.Context(), b.o); !errors.Is(err, ErrStreamUnfit) || !strings.Contains(err.Error(), "OTHER") {
		t.Errorf("with another stream on our subjects: %v", err)
	}
	b.o.Stream = "OTHER"
	f, err := Check(t.Context(), b.o)
	if !errors.Is(err, ErrStreamUnfit) || len(f.Different) == 0 || f.Missing {
		t.Errorf("with a stream that is not fit: %+v, %v", f, err)
	}
	if s, err := b.js.Stream(t.Context(), "OTHER"); err != nil || s.CachedInfo().Config.Duplicates != 2*time.Minute {
		t.Errorf("the stream was changed: %v", err)
	}
}
