package watch

import (
	"time"

	"github.com/cenkalti/backoff/v4"
)

// Delay is how long to wait after so many failures in a row: twice as long each time, up to the longest, and a fifth more or less.
func Delay(first, longest time.Duration, failures int) (d time.Duration) {
	b := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(min(first, longest)),
		backoff.WithMaxInterval(longest),
		backoff.WithMultiplier(2),
		backoff.WithRandomizationFactor(0.2),
		backoff.WithMaxElapsedTime(0), // never give up
	)
	for range min(failures, 32) { // it is at its longest long before
		d = b.NextBackOff()
	}
	return d
}
