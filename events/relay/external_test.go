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
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"doorbell/events/natsd"
	"doorbell/events/stream"

	"github.com/nats-io/nats.go/jetstream"
)

// startConfigured runs a server in a process of its own, with JetStream, a free port and further settings. It is killed as a
// process, not asked to stop.
func startConfigured(t testing.TB, command func(file string) *exec.Cmd, settings ...string) *process {
	t.Helper()
	p := configured(t, command, settings...)
	p.start()
	return p
}

// configured is such a server that was not started yet.
func configured(t testing.TB, command func(file string) *exec.Cmd, settings ...string) *process {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	l.Close()
	folder := t.TempDir()
	file := filepath.Join(folder, "server.conf")
	text := "listen: 127.0.0.1:" + strconv.Itoa(port) + "\njetstream { store_dir: \"" + filepath.Join(folder, "js") + "\" }\n" +
		strings.Join(settings, "\n")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &process{t: t, folder: folder, port: port, command: func() *exec.Cmd { return command(file) }}
	t.Cleanup(p.kill)
	return p
}

// same runs the server whose version we embed.
func same(file string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serverConfig+"="+file)
	return cmd
}

// dialled is a bell over a connection as the daemon makes it.
func (p *process) dialled(d natsd.Dial) *bell {
	p.t.Helper()
	d.URL = "nats://127.0.0.1:" + strconv.Itoa(p.port)
	nc, err := natsd.Connect(d, nil)
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		p.t.Fatal(err)
	}
	log := newMemLog()
	return &bell{t: p.t, nc: nc, js: js, log: log, o: Options{
		Log: log, Conn: stream.Conn{Conn: nc}, Prefix: "listings", Stream: "LISTINGS", Manage: true, StoreID: "s1", AckWait: 2 * time.Second,
	}}
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
			p := startConfigured(t, same, way.settings)
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

func TestAServerThatIsAwayAtTheFirstStartGetsEverythingWhenItIsThere(t *testing.T) {
	p := configured(t, same)
	b := p.dialled(natsd.Dial{})
	b.log.ring(t, "A100", 20)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := b.relay().RunOnce(ctx); err == nil {
		t.Error("published without a server")
	}
	stop := b.start(b.relay())
	p.start()
	eventually(t, "published", func() bool { return b.published("A100") })
	stop()
	exactlyOnce(t, b.js, b.log, "A100", 0)
}

// TestAStreamThatLostItsTailIsMendedOnAnExternalServer: a server that syncs lazily and loses power.
func TestAStreamThatLostItsTailIsMendedOnAnExternalServer(t *testing.T) {
	t.Parallel()
	p := startConfigured(t, same)
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
	eventually(t, "mended", func() bool { return holdsAll(b.js, b.log, "A100") })
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
