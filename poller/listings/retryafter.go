package listings

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// retryAfter reads the header: seconds, or a moment, which is counted from now. What is negative, past or cannot be read
// is 0; what is too long to say is the longest duration there is.
func retryAfter(header string, now time.Time) time.Duration {
	header = strings.TrimSpace(header)
	if header != "" && strings.Trim(header, "0123456789") == "" {
		seconds, err := strconv.ParseInt(header, 10, 64)
		if err != nil || seconds > math.MaxInt64/int64(time.Second) {
			return math.MaxInt64
		}
		return time.Duration(seconds) * time.Second
	}
	at, err := http.ParseTime(header)
	if err != nil {
		return 0
	}
	return max(0, at.Sub(now))
}
