package listings

import (
	"context"
	"crypto/x509"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"
	_ "time/tzdata" // the default of TimeZone must not depend on the machine
)

// Options of New. Zero values mean the defaults that stand beside them.
type Options struct {
	BaseURL string // https://host[/prefix]; required

	// default: NewTransport; another one must not follow redirects either
	Transport http.RoundTripper
	Timeout   time.Duration  // 30 s; for a whole request, body included
	CAs       *x509.CertPool // the system's; authorities that may sign the API's certificate
	MaxBody   int64          // 32 MiB; for a body as it comes and as it is unpacked
	Version   string         // dev; sent as User-Agent doorbell/<version>

	Gate Gate // required

	TimeZone *time.Location // Europe/Zurich; of times that name none

	// JSON pointer to the list of insertions; default: found by what is in it
	InsertionsPath      string
	ContactRequestsPath string   // JSON pointer to the list of contact requests; default: found
	IDFields            []string // names that hold the id of a contact request; default IDFields

	// JSON pointers to what is left out of digests: a change of it alone is no change of the
	// record.
	IgnoreInsertions []string
}

// Gate admits requests and is told their outcome. An error of Wait ends a call, and is wrapped.
type Gate interface {
	// Wait blocks until a request may be made, also each of a walk: the budget, and the place to
	// refuse.
	Wait(context.Context, Request) error
	// Done hears of every request that Wait let go.
	Done(Request, Outcome)
}

const defaultTimeout = 30 * time.Second

func (o Options) withDefaults() Options {
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	if o.MaxBody <= 0 {
		o.MaxBody = 32 << 20
	}
	if o.Version == "" {
		o.Version = "dev"
	}
	if o.TimeZone == nil {
		o.TimeZone, _ = time.LoadLocation("Europe/Zurich") // is embedded
	}
	if len(o.IDFields) == 0 {
		o.IDFields = IDFields
	}
	if o.Transport == nil {
		o.Transport = NewTransport(o.Timeout, o.CAs)
	}
	return o
}

// Client asks the API. It keeps connections open between requests.
type Client struct {
	o       Options
	base    *url.URL
	always  http.Header // of every request, beside the key
	ignored [][]string  // of insertions
	idNames []string    // plain
}

// New makes a client. It asks nothing. What the settings are worth is checked where they are read.
func New(o Options) (*Client, error) {
	o = o.withDefaults()
	base, err := url.Parse(o.BaseURL)
	if err != nil || base.Host == "" { // not quoted: it may hold a password by mistake
		return nil, errors.New("base URL: must have the form https://host or https://host/prefix")
	}
	base.RawPath = strings.TrimRight(base.EscapedPath(), "/")
	base.Path, _ = url.PathUnescape(base.RawPath)
	return &Client{
		o: o, base: base, ignored: tokens(o.IgnoreInsertions),
		idNames: plainNames(o.IDFields),
		always: http.Header{
			"Accept":          {"application/json"},
			"Accept-Encoding": {"gzip"},
			"Cache-Control":   {"no-cache"},
			"User-Agent":      {"doorbell/" + o.Version},
		},
	}, nil
}
