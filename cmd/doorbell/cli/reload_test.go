package cli

import (
	"context"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/poller"
)

// rereading is a reader of a key file in virtual time, and what it passed on.
type rereading struct {
	*testing.T
	file string
	hup  chan os.Signal
	log  doorbelltest.Transcript
	told chan string
}

func reread(t *testing.T, text string, test func(*rereading)) {
	t.Helper()
	r := &rereading{T: t, file: write(t, "keys", text, 0o600)}
	environ := []string{"DOORBELL_BASE_URL=https://api.example.com", "DOORBELL_API_KEYS_FILE=" + r.file}
	c, err := config.Read(environ, config.GroupPoll)
	must(t, err)
	log := NewLogger(&r.log, config.Base{LogLevel: "info", LogFormat: "text"}, Terminal{})
	synctest.Test(t, func(t *testing.T) {
		r.hup, r.told = make(chan os.Signal, 1), make(chan string, 10)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		reader := newKeyReader(environ, c, r.hup, log)
		go func() {
			ended <- reader.run(ctx, func(list []poller.AgencyKeys) error {
				text := ""
				for _, a := range list {
					text += a.ID + " " + a.Key.Fingerprint() + ", "
				}
				r.told <- text
				return nil
			})
		}()
		test(r)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if strings.Contains(r.log.String(), "-key") {
			t.Errorf("a key is in the log:\n%s", r.log.String())
		}
	})
}

// after writes the file and checks the result.
func (r *rereading) after(text string, wait time.Duration, agencies ...string) {
	r.Helper()
	r.write(text)
	r.wants(wait, agencies...)
}

// write keeps the time of the last change.
func (r *rereading) write(text string) {
	r.Helper()
	rewrite(r.T, r.file, text)
	stamp := time.Unix(1e9, 0)
	if err := os.Chtimes(r.file, stamp, stamp); err != nil {
		r.Fatal(err)
	}
}

// wants lets time pass, and fails unless the poller was given these agencies with these keys since the
// last time; nothing without any.
func (r *rereading) wants(wait time.Duration, agencies ...string) {
	r.Helper()
	time.Sleep(wait)
	synctest.Wait()
	want := ""
	for _, a := range agencies {
		id, key, _ := strings.Cut(a, "=")
		want += id + " " + config.NewSecret(key).Fingerprint() + ", "
	}
	got := ""
	for len(r.told) > 0 {
		got += <-r.told
	}
	if got != want {
		r.Errorf("the poller got %q, want %q", got, want)
	}
}

func TestAChangedKeyFileIsPickedUpWithinHalfAMinuteAndABadOneChangesNothing(t *testing.T) {
	t.Parallel()
	reread(t, "A100=first-key\nB200=b-key\n", func(r *rereading) {
		for _, bad := range []string{"", "\n# nothing\n", "A100=\n", "A100=second-key\nB200", "A100=a-key,A100=b-key"} {
			r.after(bad, 30*time.Second)
		}
		if n := strings.Count(r.log.String(), "is refused"); n != dedupeBurst {
			t.Errorf("%d lines about five bad files:\n%s", n, r.log.String())
		}
		must(t, os.Remove(r.file))
		time.Sleep(time.Hour)
		r.after("B200=b-key\nA100=second-key\n", 30*time.Second, "B200=b-key", "A100=second-key")
		r.after("C300=c-key\n", 30*time.Second, "C300=c-key")
		r.after("C300=c-key\n", time.Hour)
	})
}

func TestASignalReloadsTheFilesImmediately(t *testing.T) {
	reread(t, "A100=first-key\n", func(r *rereading) {
		time.Sleep(time.Minute)
		r.write("A100=second-key\n")
		r.hup <- os.Interrupt // whichever it is
		r.wants(0, "A100=second-key")
	})
}

func TestAFileIsNotReadWhileItIsBeingWritten(t *testing.T) {
	reread(t, "A100=a-key\nB200=b-key\n", func(r *rereading) {
		time.Sleep(config.RereadEvery / 2)
		for _, text := range []string{"A", "A100=c-key\n", "A100=c-key\nB2"} {
			r.after(text, config.RereadEvery)
		}
		r.after("A100=c-key\nB200=b-key\n", 30*time.Second, "A100=c-key", "B200=b-key")
	})
}
