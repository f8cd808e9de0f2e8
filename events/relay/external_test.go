package relay

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"doorbell/events/natsd"
)

// dialled is a bell over a connection as the daemon makes it.
func (p *process) dialled(d natsd.Dial) *bell {
	p.t.Helper()
	d.URL = "nats://127.0.0.1:" + strconv.Itoa(p.port)
	nc, err := natsd.Connect(d, nil)
	must(p.t, err)
	return bellOn(p.t, nc)
}

// ways are how a client authenticates to a server: its settings, and ours, which are right or wrong.
func ways(t *testing.T) map[string]struct {
	settings     string
	right, wrong natsd.Dial
} {
	fixture := func(name string) string {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		must(t, err)
		return string(text)
	}
	const ca, cert, key = "testdata/cert.pem", "testdata/cert.pem", "testdata/key.pem" // the server runs in this folder, too
	const tls = `tls { cert_file: "` + cert + `", key_file: "` + key + `"`
	return map[string]struct {
		settings     string
		right, wrong natsd.Dial
	}{
		"user and password": {
			`authorization { user: crm, password: "correct horse" }`,
			natsd.Dial{User: "crm", Password: "correct horse"},
			natsd.Dial{User: "crm", Password: "else"},
		},
		"token": {`authorization { token: "battery" }`, natsd.Dial{Token: "battery"}, natsd.Dial{Token: "else"}},
		"nkey":  {fixture("nkey.conf"), natsd.Dial{NKey: "testdata/user.nk"}, natsd.Dial{User: "crm"}},
		"creds": {fixture("operator.conf"), natsd.Dial{Creds: "testdata/user.creds"}, natsd.Dial{NKey: "testdata/user.nk"}},
		"TLS":   {tls + " }", natsd.Dial{CA: ca}, natsd.Dial{}},
		"TLS with our certificate": {
			tls + `, ca_file: "` + ca + `", verify: true }`,
			natsd.Dial{CA: ca, Cert: cert, Key: key},
			natsd.Dial{CA: ca},
		},
	}
}

func TestExternalServersAcceptEventsWithEveryKindOfAuthentication(t *testing.T) {
	t.Parallel()
	for name, way := range ways(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startProcess(t, way.settings)
			stranger := p.dialled(way.wrong)
			stranger.log.ring(t, "A100", 1)
			ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
			defer cancel()
			if err := stranger.relay().RunOnce(ctx); err == nil {
				t.Error("a client without credentials is admitted")
			}
			b := p.dialled(way.right)
			stop := b.start(b.relay())
			b.log.ring(t, "A100", 10)
			eventually(t, "published", func() bool { return b.published("A100") })
			p.kill()
			b.log.ring(t, "A100", 10)
			p.start()
			eventually(t, "published after a restart", func() bool { return b.published("A100") })
			stop()
			exactlyOnce(t, b.js, b.log, "A100", 0)
		})
	}
}
