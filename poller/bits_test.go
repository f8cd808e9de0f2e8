package poller

import (
	"fmt"
	"strings"
	"testing"
)

func TestMembersKeepTheirBitsOverARestart(t *testing.T) {
	var b bits
	for n := range 40 {
		want := uint32(1) << min(n, ownBits)
		if got := b.of(fmt.Sprint("member", n)); got != want {
			t.Fatalf("member %d has bit %b", n, got)
		}
	}
	var again bits
	if rest := again.restore(b.encode([]byte("learned"))); string(rest) != "learned" {
		t.Errorf("what was learned came back as %q", rest)
	}
	if got := again.of("member30"); got != 1<<30 {
		t.Errorf("the last member with a bit of its own has %b", got)
	}
	if got := again.of("member0"); got != 1 {
		t.Errorf("the first member has %b", got)
	}
}

func TestAnEndlessNameGetsNoBitOfItsOwn(t *testing.T) {
	var b bits
	if got := b.of(strings.Repeat("x", 256)); got != otherMembers || len(b.names) != 0 {
		t.Errorf("it got %b", got)
	}
}

func FuzzNamesOfMembersAreRestoredOrNothingIs(f *testing.F) {
	var b bits
	b.of("modified")
	f.Add(b.encode([]byte{1, 2}))
	f.Add([]byte{bitsVersion, 2, 1, 'a', 9})
	f.Fuzz(func(t *testing.T, stored []byte) {
		var b bits
		rest := b.restore(stored)
		if len(b.names) == 0 {
			return
		}
		if got := string(b.encode(rest)); got != string(stored) {
			t.Errorf("%q came back as %q", stored, got)
		}
	})
}
