package natsd

import (
	"log/slog"
	"strings"
	"testing"
)

func TestWhatGuestsDoWrongIsNotTakenForTheServersOwnTrouble(t *testing.T) {
	var out buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	s := start(t, func(o *Options) { o.Logger = log })
	nc, _ := guest(t, s)
	if err := nc.Publish("listings.v1.A100.x", nil); err != nil {
		t.Fatal(err)
	}
	eventually(t, "logged", func() bool { return strings.Contains(out.String(), "Publish Violation") })
	(&logger{log: log}).Errorf("Filestore [%s] error", "LISTINGS")
	for line := range strings.Lines(out.String()) {
		want := `msg="nats server"`
		if strings.Contains(line, "Violation") {
			want = `msg="nats connection"`
		}
		if !strings.Contains(line, want) {
			t.Errorf("%q is no line of %s", line, want)
		}
	}
}
