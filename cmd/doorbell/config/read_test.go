package config

import (
	"strings"
	"testing"
)

func TestTheTagsOfEveryFieldAreFit(t *testing.T) {
	for _, s := range All() {
		tag := s.field.Tag
		if s.Description == "" || !strings.HasSuffix(s.Description, ".") {
			t.Errorf("%s: description %q is no sentence", s.Name, s.Description)
		}
		if low, high := tag.Get("min"), tag.Get("max"); low != "" && !(0 < limit(s.field.Type, low) && limit(s.field.Type, low) < limit(s.field.Type, high)) {
			t.Errorf("%s: %q to %q is no range", s.Name, low, high)
		}
		if name := strings.TrimPrefix(s.Name, "DOORBELL_"); name == "PORT" || strings.HasPrefix(name, "PORT_") || strings.HasPrefix(name, "SERVICE_") {
			t.Errorf("%s: Kubernetes sets such names", s.Name)
		}
	}
}

func TestDistanceCountsEdits(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"a", "", 1}, {"", "ab", 2}, {"kitten", "sitting", 3}, {"flaw", "lawn", 2}, {"same", "same", 0}} {
		if got := distance(tt.a, tt.b); got != tt.want || distance(tt.b, tt.a) != tt.want {
			t.Errorf("%s, %s: %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}
