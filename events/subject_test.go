package events_test

import (
	"net/url"
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"doorbell/events"
)

// tokenForm is what every NATS server takes as one token of a subject, as a key and as a file name.
var tokenForm = regexp.MustCompile(`^[A-Za-z0-9_=-]{1,64}$`)

func TestTokens(t *testing.T) {
	for id, want := range map[string]string{
		"A100":                  "A100",
		"a-b_C9":                "a-b_C9",
		"":                      "=",
		"=":                     "=3D",
		"A#12##":                "A=2312=23=23",
		"A 1":                   "A=201",
		"a.b":                   "a=2Eb",
		"*":                     "=2A",
		">":                     "=3E",
		"\x00":                  "=00",
		"ä":                     "=C3=A4",
		"=20":                   "=3D20",
		strings.Repeat("a", 64): strings.Repeat("a", 64),
		strings.Repeat("a", 65): "==mnjwdrelxhvlcqmy45xkrk37djawqxlk2yvksfdngaou6f7lblqa",
		strings.Repeat("#", 22): "==pszmqc3zhktblrflwaci3s72aiapao6faed6i6nwuln7nhktso5q",
	} {
		if got := events.Token(id); got != want {
			t.Errorf("token of %q is %s, want %s", id, got, want)
		}
	}
}

// agencyIDs leans to the ids that could be mistaken for one another.
var agencyIDs = rapid.OneOf(
	rapid.StringMatching(`[A-C0-2=]{0,8}`),
	rapid.StringMatching(`(=[0-3][0-9A-F]|#| |a){0,12}`),
	rapid.StringMatching(`[a#]{60,70}`),
	rapid.String(),
	rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
)

func FuzzToken(f *testing.F) {
	for _, id := range []string{"", "A100", "A#12##", "==", "=2312", "a.b.*.>", "\r\n", "\xff", strings.Repeat("ä", 40)} {
		f.Add(id)
	}
	owner := map[string]string{}
	f.Fuzz(func(t *testing.T, id string) {
		if len(owner) > 1_000 {
			clear(owner)
		}
		checkToken(t, id, owner)
	})
}

func checkToken(t rapid.TB, id string, owner map[string]string) {
	token := events.Token(id)
	if !tokenForm.MatchString(token) {
		t.Fatalf("token of %q is %q", id, token)
	}
	if other, ok := owner[token]; ok && other != id {
		t.Fatalf("%q and %q share the token %s", id, other, token)
	}
	owner[token] = id
	if strings.HasPrefix(token, "==") || token == "=" {
		return
	}
	if read, err := url.PathUnescape(strings.ReplaceAll(token, "=", "%")); err != nil || read != id {
		t.Fatalf("token %s of %q is read as %q, %v", token, id, read, err)
	}
}

func TestAPrefixIsWordsJoinedByDots(t *testing.T) {
	for _, prefix := range []string{"listings", "acme.listings", "a-b_C.9", strings.Repeat("a", 64)} {
		if err := events.ValidPrefix(prefix); err != nil {
			t.Errorf("%q: %v", prefix, err)
		}
	}
	for _, prefix := range []string{
		"", ".", "a.", ".a", "a..b", "a b", "*", "a.>", "$JS", "a\tb", "a\r\n", "ä", "š", "=", "a/b", strings.Repeat("a", 65),
	} {
		if err := events.ValidPrefix(prefix); err != events.ErrPrefix {
			t.Errorf("%q: error is %v", prefix, err)
		}
	}
}
