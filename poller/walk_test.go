package poller

import (
	"bytes"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"doorbell/poller/listings"
)

func TestAHintIsLoggedOnlyWhereTheBaseURLMayBeWrong(t *testing.T) {
	for status, want := range map[int]bool{http.StatusNotFound: true, http.StatusInternalServerError: false} {
		var b bytes.Buffer
		slog.New(slog.NewJSONHandler(&b, nil)).Warn("walk is partial", "err", "", hint(&listings.StatusError{Status: status}))
		if got := strings.Contains(b.String(), `"hint"`); got != want {
			t.Errorf("status %d: %s", status, b.String())
		}
	}
}
