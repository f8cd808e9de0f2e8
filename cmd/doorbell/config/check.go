package config

import (
	"crypto/x509"
	"errors"
	"fmt"
	"math"
	"net"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"doorbell/events/forward"
)

// complaint says in our words why a text does not fit a field. Parsers of the standard library quote what they read,
// so their errors go no further than here.
func complaint(t reflect.Type, err error) string {
	var a advice
	if errors.As(err, &a) {
		return string(a)
	}
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return "is not a duration; write it like 30s, 5m or 2h (30 days are 720h)"
	case t.Kind() == reflect.Bool:
		return "is neither true nor false; write one of them"
	case t.Kind() == reflect.Float64:
		return "is not a number; write it like 5 or 0.5"
	}
	return "is not a whole number; write it like 5"
}

// checkRange holds a value against the tags choice, min and max of its field. 0 of a field with auto is auto.
func (r *reader) checkRange(s *Setting) {
	if !r.good(s.Name) {
		return
	}
	if choice := s.field.Tag.Get("choice"); choice != "" {
		if !slices.Contains(strings.Split(choice, ","), s.value.String()) {
			r.wrong(s.Name, "is not one of its values; write one of "+strings.ReplaceAll(choice, ",", ", "))
		}
		return
	}
	low, high := s.field.Tag.Get("min"), s.field.Tag.Get("max")
	if low == "" || s.Default == "auto" && s.value.IsZero() {
		return
	}
	v := amount(s.value)
	if !(v >= limit(s.value.Type(), low) && v <= limit(s.value.Type(), high)) { // so written, NaN is out of range
		r.wrong(s.Name, "is out of range; write a value from "+low+" to "+high)
	}
}

func amount(v reflect.Value) float64 {
	if v.Kind() == reflect.Float64 {
		return v.Float()
	}
	return float64(v.Int())
}

// limit reads a min or max tag in the notation of its field. A tag that is unfit is 0, which the test of the tags finds.
func limit(t reflect.Type, text string) float64 {
	switch t {
	case reflect.TypeFor[time.Duration](), reflect.TypeFor[AutoDuration]():
		d, _ := time.ParseDuration(text)
		return float64(d)
	case reflect.TypeFor[Size]():
		var s Size
		_ = s.Decode(text)
		return float64(s)
	}
	f, _ := strconv.ParseFloat(text, 64)
	return f
}

var subjectPrefix = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)

func (r *reader) checkBase(c *Config) {
	b := c.Base
	if !subjectPrefix.MatchString(b.SubjectPrefix) || len(b.SubjectPrefix) > 100 {
		r.wrong("DOORBELL_SUBJECT_PREFIX", "is not a NATS subject; write letters, digits, - and _, parts separated by dots")
	}
	if b.Instance != "" && forward.ValidName(b.Instance) != nil {
		r.wrong("DOORBELL_INSTANCE", "is not a name; write at most 32 letters, digits, - and _")
	}
	r.checkListen("DOORBELL_NATS_LISTEN", b.NATSListen, "127.0.0.1:4222")
	r.checkListen("DOORBELL_HTTP_LISTEN", b.HTTPListen, "127.0.0.1:3667")
	if b.HTTPListen == b.NATSListen && b.HTTPListen != "off" && !strings.HasSuffix(b.HTTPListen, ":0") {
		r.wrong("DOORBELL_HTTP_LISTEN", "is the same as DOORBELL_NATS_LISTEN; give one of them another port")
	}
	r.checkToken(b.HTTPToken)
	if trouble := URLTrouble(b.PingURL.Reveal(), b.AllowPlaintext); trouble != "" && !b.PingURL.IsZero() {
		r.wrong("DOORBELL_PING_URL", trouble)
	}
}

// shortestToken is the least that a token may have: whoever guesses it may do everything.
const shortestToken = 16

// checkToken wants a token that is hard to guess and can stand in a header.
func (r *reader) checkToken(token Secret) {
	const name, make = "DOORBELL_HTTP_TOKEN", "make one with: openssl rand -hex 32"
	text := token.Reveal()
	switch odd := strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c > '~' }); {
	case token.IsZero():
	case odd:
		r.wrong(name, "holds a space or a character that cannot stand in a header; "+make)
	case len(text) < shortestToken || len(text) > 512:
		r.wrong(name, fmt.Sprintf("has fewer than %d characters, or more than 512; %s", shortestToken, make))
	}
}

// checkListen wants "off" or host:port. Port 0 is any free one.
func (r *reader) checkListen(name, text, example string) {
	if text == "off" || !r.good(name) {
		return
	}
	host, port, err := net.SplitHostPort(text)
	n, portErr := strconv.ParseUint(port, 10, 16)
	if err != nil || portErr != nil || n > 65535 || strings.ContainsAny(host, " /@") {
		r.wrong(name, "is not an address to listen on; write host:port like "+example+", or off")
	}
}

// checkBaseURL wants an address to which paths can be appended. That of an operation is easily pasted.
func (r *reader) checkBaseURL(base string, plaintext Hosts) {
	if trouble := URLTrouble(base, plaintext); trouble != "" {
		r.wrong("DOORBELL_BASE_URL", trouble)
	} else if strings.ContainsAny(base, "?#") {
		r.wrong("DOORBELL_BASE_URL", "holds a query or fragment; leave out everything from the ? or #")
	}
	for _, path := range []string{"/insertion-funnel/", "/ubm-contact-request/"} {
		if n := strings.Index(base+"/", path); n >= 0 {
			r.wrong("DOORBELL_BASE_URL", "holds the path of an operation; write only what stands before "+strings.TrimRight(path, "/"))
		}
	}
}

// checkPoll is last: it needs everything else. The address is left as it is but for slashes at its end.
func (r *reader) checkPoll(c *Config) {
	p := &c.Poll
	if p.BaseURL == "" && r.good("DOORBELL_BASE_URL") {
		r.wrong("DOORBELL_BASE_URL", "is not set; write the address of the API, like https://api.example.com")
	}
	if p.BaseURL != "" {
		p.BaseURL = Address(strings.TrimRight(string(p.BaseURL), "/"))
		r.checkBaseURL(string(p.BaseURL), c.Base.AllowPlaintext)
	}
	if len(p.RecordsPath.Insertion) > 1 || len(p.RecordsPath.ContactRequest) > 1 {
		r.wrong("DOORBELL_RECORDS_PATH", "has several paths for one kind; write one, or none to learn it")
	}
	c.CAs = r.authorities(p.CAFile)
	c.Agencies = r.resolveAgencies(*p)
}

// authorities returns the system's certificate authorities and those of a file.
func (r *reader) authorities(file string) *x509.CertPool {
	const name = "DOORBELL_CA_FILE"
	if file == "" {
		return nil
	}
	text, trouble := ReadFile(file)
	if trouble != "" {
		r.wrong(name, "names "+file+", which "+trouble)
		return nil
	}
	all, err := x509.SystemCertPool()
	if err != nil { // there is none
		all = x509.NewCertPool()
	}
	if !all.AppendCertsFromPEM([]byte(text)) {
		r.wrong(name, "names "+file+", which holds no certificate; write the authority's in PEM form, which begins with -----BEGIN CERTIFICATE-----")
	}
	return all
}

// checkStaleness refuses a cap that cannot be held even for a single insertion. How many there are is not known here.
func (r *reader) checkStaleness(p Poll) {
	const name = "DOORBELL_MAX_STALENESS"
	limit := time.Duration(p.MaxStaleness)
	if limit == 0 || !r.good(name, "DOORBELL_REQUESTS_PER_SECOND") || limit.Seconds()*p.RequestsPerSecond >= 1-1e-9 {
		return
	}
	r.wrong(name, fmt.Sprintf("is less than a single insertion needs: set DOORBELL_REQUESTS_PER_SECOND to at least %g, or allow at least %s",
		math.Ceil(1e3/limit.Seconds()-1e-6)/1e3, time.Duration(float64(time.Second)/p.RequestsPerSecond).Round(time.Millisecond)))
}
