package main

import (
	"context"
	"io"
	"log/slog"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"doorbell/poller"
)

func TestAChangedKeyFileIsPickedUpWithinHalfAMinuteAndABadOneChangesNothing(t *testing.T) {
	file := write(t, "keys", "A100=first-key\n", 0o600)
	environ := []string{"DOORBELL_BASE_URL=https://api.example.com", "DOORBELL_API_KEYS_FILE=" + file}
	c, err := readConfig(environ, groupPoll)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		var got []string
		set := func(list []poller.AgencyKeys) error {
			for _, a := range list {
				got = append(got, a.ID+" "+a.Key.Fingerprint())
			}
			return nil
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		reader := newKeyReader(environ, c, nil, slog.New(slog.NewTextHandler(io.Discard, nil)))
		go func() { ended <- reader.run(ctx, set) }()
		change := func(text string, stamp time.Time) {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(file, stamp, stamp); err != nil {
				t.Fatal(err)
			}
			time.Sleep(lookForKeysEvery + time.Second)
			synctest.Wait()
		}
		time.Sleep(time.Minute)
		change("A100=\n", time.Unix(1e9, 0))
		if len(got) != 0 {
			t.Errorf("an unchanged or bad file gave keys: %v", got)
		}
		change("A100=second-key\n", time.Unix(1e9+1, 0))
		if want := "A100 " + newSecret("second-key").Fingerprint(); len(got) != 1 || got[0] != want {
			t.Errorf("got %v, want [%s]", got, want)
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
