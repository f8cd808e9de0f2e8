package forward

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"doorbell/events"
)

// file is that of the worker of receiver a.
func (w *world) file() string { return filepath.Join(w.o.Dir, "forward", "slack.a.json") }

func TestAStateThatIsBehindItsConsumerDoublesNothing(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, w *world, path string){
		"it could not be written": func(t *testing.T, w *world, path string) {
			block := path + ".new"
			w.run(5*time.Minute, func() {
				w.must(os.Mkdir(block, 0o700))
				w.leads(50, "A100")
			})
			w.must(os.Remove(block))
		},
		"it is that of a backup": func(t *testing.T, w *world, path string) {
			backup, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			w.run(5*time.Minute, func() { w.leads(50, "A100") })
			w.must(os.WriteFile(path, backup, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			scene(t, 1, func(t *testing.T, w *world, s *script) {
				w.run(time.Second, func() { w.lead("A100") })
				spoil(t, w, w.file())
				w.run(5*time.Minute, func() { w.lead("A100") })
				wantIDs(t, s, w.history)
			})
		})
	}
}

func TestWhatComesFromTheMomentOfTheOptionsOnIsNew(t *testing.T) {
	scene(t, 1, func(t *testing.T, w *world, s *script) {
		w.lead("A100")
		time.Sleep(time.Minute) // virtual: nobody forwards yet
		w.o.Since = time.Now()
		want := []events.Event{w.lead("A100")}
		time.Sleep(8 * time.Second) // virtual, as the forwarder begins later than the daemon
		w.run(time.Minute, func() { want = append(want, w.lead("A100")) })
		wantIDs(t, s, want)
	})
}
