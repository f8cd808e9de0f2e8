package natsd

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
)

// Dial says where an external NATS is, and with which credentials. Empty fields are not used.
type Dial struct {
	URL                   string // one or several, separated by commas
	Creds, NKey           string // files
	User, Password, Token string
	CA, Cert, Key         string // files, PEM
	Domain, APIPrefix     string // where its JetStream is, for stream.Conn
}

// ErrDial is wrapped by what is wrong with a Dial itself: trying again will not help.
var ErrDial = errors.New("NATS connection settings")

// Connect returns immediately, connected or not: the connection retries without end, in the
// background, and logs it. Nothing is published late: without a connection a publish fails. Errors
// and log lines show no user info, password, token or key. The caller closes the connection.
func Connect(d Dial, log *slog.Logger) (*nats.Conn, error) {
	log = cmp.Or(log, slog.New(slog.DiscardHandler))
	auth, err := d.options()
	if err != nil {
		return nil, err
	}
	host, _ := os.Hostname()
	name := "doorbell@" + cmp.Or(host, "unknown") // for the operator of the server
	nc, err := nats.Connect(d.URL, append(resilient(name, log), auth...)...)
	if errors.As(err, new(*url.Error)) { // it quotes the URL, and the password in it
		err = errors.New("a URL cannot be read")
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrDial, Redact(d.URL), err)
	}
	return nc, nil
}

func (d Dial) options() ([]nats.Option, error) {
	o := []nats.Option{nats.UserInfo(d.User, d.Password), nats.Token(d.Token)}
	if d.Creds != "" {
		if _, err := os.Stat(d.Creds); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrDial, err)
		}
		o = append(o, nats.UserCredentials(d.Creds))
	}
	if d.NKey != "" {
		nkey, err := nats.NkeyOptionFromSeed(d.NKey)
		if err != nil {
			return nil, fmt.Errorf("%w: %s contains no readable NKey seed", ErrDial, d.NKey)
		}
		o = append(o, nkey)
	}
	if d.CA != "" {
		o = append(o, nats.RootCAs(d.CA))
	}
	if d.Cert != "" {
		o = append(o, nats.ClientCert(d.Cert, d.Key))
	}
	return o, nil
}

// parse reads a URL as the client library does: without a scheme it is a nats:// one.
func parse(one string) (*url.URL, error) {
	if one = strings.TrimSpace(one); !strings.Contains(one, "://") {
		one = "nats://" + one
	}
	return url.Parse(one)
}

// Redact returns a list of NATS URLs without user, password and token.
func Redact(urls string) string {
	var out []string
	for one := range strings.SplitSeq(urls, ",") {
		u, err := parse(one)
		if err != nil {
			out = append(out, "[unreadable]")
			continue
		}
		u.User, u.RawQuery, u.Fragment = nil, "", ""
		out = append(out, u.String())
	}
	return strings.Join(out, ",")
}

// resilient returns the options of all our connections: never give up, publish nothing late, log
// changes.
func resilient(name string, log *slog.Logger) []nats.Option {
	return []nats.Option{
		nats.Name(name),
		nats.MaxReconnects(-1),
		nats.RetryOnFailedConnect(true),
		nats.IgnoreAuthErrorAbort(),
		nats.ReconnectWait(time.Second),
		nats.ReconnectJitter(500*time.Millisecond, time.Second),
		nats.ReconnectBufSize(-1),
		nats.PingInterval(20 * time.Second),
		nats.FlusherTimeout(10 * time.Second), // a server that does not read delays every caller
		nats.ConnectHandler(func(nc *nats.Conn) { log.Info("NATS connected", "server", nc.ConnectedServerName()) }),
		nats.ReconnectHandler(func(nc *nats.Conn) { log.Info("NATS reconnected", "server", nc.ConnectedServerName()) }),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			if err != nil {
				log.Warn("NATS connection lost", "err", err.Error())
			}
		}),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			about := log
			if sub != nil {
				about = log.With("subject", sub.Subject)
			}
			about.Error("NATS error", "err", err.Error())
		}),
	}
}
