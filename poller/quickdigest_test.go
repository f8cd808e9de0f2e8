package poller

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"doorbell/poller/listings"
)

// TestAContactRequestHasOneDigest holds the quick way to it against the slow one: they are stored and compared.
func TestAContactRequestHasOneDigest(t *testing.T) {
	r := newRules(nil, []string{"/views", "/contact/seen"})
	quickly := 0
	rapid.Check(t, func(t *rapid.T) {
		record := objectOf(t, 3)
		c := listings.ContactRequest{Record: []byte(record)}
		if _, ok := c.ScorelessDigest(r.ignoreContactRequest); ok {
			quickly++
		}
		if full(c, r) != slowFull(c, r) {
			t.Fatalf("two digests of %s", record)
		}
	})
	if quickly == 0 {
		t.Error("none was quick")
	}
}

func objectOf(t *rapid.T, deep int) string {
	name := rapid.SampledFrom([]string{"score", "Score", "sc_ore", "views", "contact", "seen", "a", "b", "ä", "\\u0061", "\u017fcore", ""})
	var list []string
	for range rapid.IntRange(0, 5).Draw(t, "members") {
		list = append(list, fmt.Sprintf(`"%s":%s`, name.Draw(t, "name"), valueOf(t, deep-1)))
	}
	return "{" + strings.Join(list, ",") + "}"
}

func valueOf(t *rapid.T, deep int) string {
	switch kind := rapid.IntRange(0, 5).Draw(t, "kind"); {
	case deep > 0 && kind < 2:
		return objectOf(t, deep)
	case deep > 0 && kind == 2:
		return "[" + valueOf(t, deep-1) + "," + valueOf(t, deep-1) + "]"
	}
	return rapid.SampledFrom([]string{"1", "1.0", "-0", "1e3", "null", "true", `""`, `"x"`, `"\n"`, `"\u000A"`, `"\/"`, `"ü"`, `"\ud83d\ude00"`}).Draw(t, "scalar")
}
