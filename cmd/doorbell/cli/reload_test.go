package cli

import (
	"context"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/poller"
)

// rereading is a reader of a key file in virtual time, and what it told.
type rereading struct {
	t    *testing.T
	file string
	hup  chan os.Signal
	log  doorbelltest.Transcript

	mutex sync.Mutex
	told  []string
}

func reread(t *testing.T, text string, test func(*rereading)) {
	t.Helper()
	r := &rereading{t: t, file: write(t, "keys", text, 0o600)}
	environ := []string{"DOORBELL_BASE_URL=https://api.example.com", "DOORBELL_API_KEYS_FILE=" + r.file}
	c, err := config.Read(environ, config.GroupPoll)
	if err != nil {
		t.Fatal(err)
	}
	log := NewLogger(&r.log, config.Base{LogLevel: "info", LogFormat: "text"}, Terminal{})
	synctest.Test(t, func(t *testing.T) {
		r.hup = make(chan os.Signal, 1)
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		reader := newKeyReader(environ, c, r.hup, log)
		go func() { ended <- reader.run(ctx, r.set) }()
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

func (r *rereading) set(list []poller.AgencyKeys) error {
	var all []string
	for _, a := range list {
		all = append(all, a.ID+" "+a.Key.Fingerprint())
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.told = append(r.told, strings.Join(all, ", "))
	return nil
}

func (r *rereading) write(text string) {
	r.t.Helper()
	if err := os.WriteFile(r.file, []byte(text), 0o600); err != nil {
		r.t.Fatal(err)
	}
	stamp := time.Unix(1e9, 0) // of every text the same
	if err := os.Chtimes(r.file, stamp, stamp); err != nil {
		r.t.Fatal(err)
	}
}

// change writes the file and lets half a minute pass.
func (r *rereading) change(text string) {
	r.t.Helper()
	r.write(text)
	time.Sleep(30 * time.Second)
	synctest.Wait()
}

// wants fails unless the poller was told exactly this since the last time.
func (r *rereading) wants(want ...string) {
	r.t.Helper()
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if strings.Join(r.told, "; ") != strings.Join(want, "; ") {
		r.t.Errorf("told %q, want %q", r.told, want)
	}
	r.told = nil
}

func agencyLine(id, key string) string { return id + " " + config.NewSecret(key).Fingerprint() }

func TestAChangedKeyFileIsPickedUpWithinHalfAMinuteAndABadOneChangesNothing(t *testing.T) {
	t.Parallel()
	reread(t, "A100=first-key\nB200=b-key\n", func(r *rereading) {
		time.Sleep(time.Minute)
		synctest.Wait()
		r.wants()
		for _, bad := range []string{"", "\n# nothing\n", "A100=\n", "A100=second-key\nB200", "A100=a-key,A100=b-key"} {
			r.change(bad)
			r.wants()
		}
		if n := strings.Count(r.log.String(), "is refused"); n != dedupeBurst {
			t.Errorf("%d lines about five bad files:\n%s", n, r.log.String())
		}
		if err := os.Remove(r.file); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		r.change("B200=b-key\nA100=second-key\n")
		r.wants(agencyLine("B200", "b-key") + ", " + agencyLine("A100", "second-key"))
		r.change("C300=c-key\n")
		r.wants(agencyLine("C300", "c-key"))
		time.Sleep(time.Hour)
		r.wants()
	})
}

func TestASignalHasTheFilesReadAtOnce(t *testing.T) {
	reread(t, "A100=first-key\n", func(r *rereading) {
		time.Sleep(time.Minute)
		r.write("A100=second-key\n")
		r.hup <- os.Interrupt // whichever it is
		synctest.Wait()
		r.wants(agencyLine("A100", "second-key"))
	})
}

func TestAFileIsNotReadWhileItIsBeingWritten(t *testing.T) {
	reread(t, "A100=a-key\nB200=b-key\n", func(r *rereading) {
		time.Sleep(readKeysEvery / 2)
		for _, text := range []string{"A", "A100=c-key\n", "A100=c-key\nB2"} {
			r.write(text)
			time.Sleep(readKeysEvery)
			synctest.Wait()
			r.wants()
		}
		r.change("A100=c-key\nB200=b-key\n")
		r.wants(agencyLine("A100", "c-key") + ", " + agencyLine("B200", "b-key"))
	})
}
