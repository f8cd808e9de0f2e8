package doorbelltest

import (
	"strings"
	"testing"

	"doorbell/poller/sandbox"
)

func TestLeaksAreFoundWhereverTheyAre(t *testing.T) {
	for _, secret := range secrets {
		if len(Leaks("one\nand "+secret+"\n")) == 0 || len(Leaks("and "+secret, secret)) > 0 {
			t.Error("it passes, or what is allowed does not")
		}
		for _, found := range Leaks("and " + secret) {
			if strings.Contains(found, secret) {
				t.Error("it is told on")
			}
		}
		m := Message{Subject: "listings.v1.A100." + secret}
		if len(LeaksOfMessage(m)) == 0 {
			t.Error("it passes in a subject")
		}
		m = Message{Header: map[string][]string{"ce-subject": {secret}}}
		if len(LeaksOfMessage(m)) == 0 {
			t.Error("it passes in a header")
		}
		m = Message{Data: []byte(secret)}
		if found := len(LeaksOfMessage(m)) > 0; found != (secret != sandbox.Marker) {
			t.Error("people may stand in a payload, and no key")
		}
	}
	for _, args := range [][]string{{}, {"run"}, {"status", "--json"}, {"events", "tail"}, {"replay", "--to", "x"}} {
		if len(Tells(args)) > 0 {
			t.Errorf("%q may tell", args)
		}
	}
}
