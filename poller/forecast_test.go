package poller_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"doorbell/poller/sandbox"
)

// far is an API that is so far away, there and back.
type far struct {
	http.RoundTripper
	there time.Duration
}

func (f far) RoundTrip(r *http.Request) (*http.Response, error) {
	time.Sleep(f.there)
	defer time.Sleep(f.there)
	return f.RoundTripper.RoundTrip(r)
}

func TestThePlanPromisesTheLatencyThatIsMeasured(t *testing.T) {
	long(t)
	for name, tt := range map[string]struct {
		there, interval, walks time.Duration
		budget                 float64
	}{
		"a busy budget":               {0, 10 * time.Second, 10 * time.Minute, 0.5},
		"walks that take a quarter":   {0, 10 * time.Second, time.Minute, 0.5},
		"slow answers, much to spend": {2 * time.Second, 5 * time.Second, 10 * time.Minute, 50},
		"answers as slow as budget":   {time.Second, 10 * time.Second, time.Minute, 0.5},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) {
				random := rand.New(rand.NewPCG(1, 1))
				var all []string
				for n := range 100 {
					all = append(all, fmt.Sprintf("a#%d##", n))
				}
				w.publish("A100", all...)
				w.options.API.Transport = far{w.options.API.Transport, tt.there}
				w.options.RequestsPerSecond, w.options.PollInterval, w.options.WalkInterval, w.options.PageSize = tt.budget, tt.interval, tt.walks, 20
				w.start()
				for range 2 * 3600 / 7 {
					w.pass(6937 * time.Millisecond)
					for n, reference := range all {
						perHour := 0.3
						if n%10 == 0 {
							perHour = 24
						}
						if random.Float64() < perHour*7/3600 {
							w.write("A100", reference, 0)
						}
					}
				}
				plan, _ := w.poller.Outlook().Plan()
				promised, l := plan.Forecast().Mean.Seconds(), w.status("A100").Freshness.Latency
				if l.ContactRequests < 150 || math.Abs(promised-l.MeanSeconds) > l.MeanSeconds/5 {
					t.Errorf("a mean of %.1f s is promised, %.1f s are measured with %d contact requests", promised, l.MeanSeconds, l.ContactRequests)
				}
			})
		})
	}
}
