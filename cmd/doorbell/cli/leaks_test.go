package cli

import (
	"strings"
	"testing"

	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/poller/sandbox"
)

func TestLeaksAreFoundWhereverTheyAre(t *testing.T) {
	for _, secret := range []string{
		sandbox.Marker, doorbelltest.TestKey, doorbelltest.OtherKey, doorbelltest.SandboxKey, doorbelltest.Sentinel, doorbelltest.PageToken,
	} {
		if len(doorbelltest.Leaks("one\nand "+secret+"\n")) == 0 || len(doorbelltest.Leaks("and "+secret, secret)) > 0 {
			t.Error("it passes, or what is allowed does not")
		}
		for _, found := range doorbelltest.Leaks("and " + secret) {
			if strings.Contains(found, secret) {
				t.Error("it is told on")
			}
		}
		m := doorbelltest.Message{Subject: "listings.v1.A100." + secret}
		if len(doorbelltest.LeaksOfMessage(m)) == 0 {
			t.Error("it passes in a subject")
		}
		m = doorbelltest.Message{Header: map[string][]string{"ce-subject": {secret}}}
		if len(doorbelltest.LeaksOfMessage(m)) == 0 {
			t.Error("it passes in a header")
		}
		m = doorbelltest.Message{Data: []byte(secret)}
		if found := len(doorbelltest.LeaksOfMessage(m)) > 0; found != (secret != sandbox.Marker) {
			t.Error("people may stand in a payload, and no key")
		}
	}
	for _, args := range [][]string{{}, {"run"}, {"status", "--json"}, {"events", "tail"}, {"replay", "--to", "x"}} {
		if len(doorbelltest.Tells(args)) > 0 {
			t.Errorf("%q may tell", args)
		}
	}
}
