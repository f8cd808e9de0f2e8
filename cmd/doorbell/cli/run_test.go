package cli

import (
	"bytes"
	"context"
	"testing"

	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"
)

func TestEventsTailThatIsEndedBeforeItIsConnectedHasNotFailed(t *testing.T) {
	t.Parallel()
	ctx, end := context.WithCancel(t.Context())
	end()
	var said bytes.Buffer
	if code := Main(ctx, []string{"events", "tail"}, nil, &said, &said, doorbelltest.NewScene(t, "A100").Environ); code != exit.Done || said.Len() > 0 {
		t.Errorf("exit code %d, and it says: %s", code, &said)
	}
}

func TestWhatIsOnlyOddIsWarnedAboutAndTheWatchBegins(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100")
	key := write(t, "key", doorbelltest.TestKey+"\n", 0o644)
	d := doorbelltest.Launch(t, s.With("DOORBELL_API_KEY=", "DOORBELL_API_KEY_FILE="+key, "DOORBELL_POL_INTERVAL=1s"), "run")
	doorbelltest.SubscribeTo(t, doorbelltest.NatsURL(t, s.Dir)).Baselined(t, "A100")
	d.Stop(t)
	doorbelltest.Has(t, d.Stderr.String(), "DOORBELL_POL_INTERVAL is not a setting and is ignored; did you mean DOORBELL_POLL_INTERVAL?")
	doorbelltest.HoldsNobody(t, d.Stderr.String())
}
