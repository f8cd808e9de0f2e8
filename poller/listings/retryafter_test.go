package listings

import (
	"math"
	"testing"
	"time"
)

func TestRetryAfterIsReadWithoutOverflow(t *testing.T) {
	now := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	for header, want := range map[string]time.Duration{
		"": 0, "0": 0, "5": 5 * time.Second, " 5 ": 5 * time.Second, "-5": 0, "1.5": 0, "5s": 0, "+5": 0, "soon": 0,
		"9223372036": 9223372036 * time.Second, "9223372037": math.MaxInt64, "99999999999999999999": math.MaxInt64,
		"Fri, 20 Nov 2026 09:00:30 GMT": 30 * time.Second, "Fri, 20 Nov 2026 08:59:00 GMT": 0,
		"Friday, 20-Nov-26 09:00:30 GMT": 30 * time.Second, "Fri, 31 Dec 9999 23:59:59 GMT": math.MaxInt64,
	} {
		if got := retryAfter(header, now); got != want {
			t.Errorf("%q: %v, want %v", header, got, want)
		}
	}
}
