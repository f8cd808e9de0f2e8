package relay

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
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
	if err != nil {
		p.t.Fatal(err)
	}
	return bellOn(p.t, nc)
}

// ways are how one proves oneself to a server: its settings, and ours, which are right or wrong.
func ways(t *testing.T) map[string]struct {
	settings     string
	right, wrong natsd.Dial
} {
	fixture := func(name string) string {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	c := certificates(t)
	tls := "tls { cert_file: \"" + c.cert + "\", key_file: \"" + c.key + "\""
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
		"TLS":   {tls + " }", natsd.Dial{CA: c.ca}, natsd.Dial{}},
		"TLS with our certificate": {
			tls + ", ca_file: \"" + c.ca + "\", verify: true }",
			natsd.Dial{CA: c.ca, Cert: c.cert, Key: c.key},
			natsd.Dial{CA: c.ca},
		},
	}
}

func TestExternalServersTakeEventsWhicheverWayOneProvesOneself(t *testing.T) {
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
				t.Error("whoever proves nothing gets in")
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

// TestAStreamThatLostItsTailIsMendedOnAnExternalServer: a server that syncs lazily and loses power.
func TestAStreamThatLostItsTailIsMendedOnAnExternalServer(t *testing.T) {
	t.Parallel()
	p := startProcess(t)
	b := p.dialled(natsd.Dial{})
	stop := b.start(b.relay())
	b.log.ring(t, "A100", 10)
	eventually(t, "published", func() bool { return b.published("A100") })
	p.kill()
	saved := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(saved, os.DirFS(filepath.Join(p.folder, "js"))); err != nil {
		t.Fatal(err)
	}
	p.start()
	b.log.ring(t, "A100", 15)
	eventually(t, "published", func() bool { return b.published("A100") })
	p.kill()
	if err := os.RemoveAll(filepath.Join(p.folder, "js")); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(p.folder, "js"), os.DirFS(saved)); err != nil {
		t.Fatal(err)
	}
	p.start()
	eventually(t, "mended", func() bool { return b.holdsAll("A100") })
	stop()
	exactlyOnce(t, b.js, b.log, "A100", 0)
}

// files of a certificate that signs itself.
type files struct{ ca, cert, key string }

func certificates(t *testing.T) files {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, kind string, b []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: b}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	c := write("cert.pem", "CERTIFICATE", cert)
	return files{ca: c, cert: c, key: write("key.pem", "EC PRIVATE KEY", private)}
}
