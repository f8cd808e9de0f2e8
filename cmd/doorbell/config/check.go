package config

import (
	"crypto/x509"
	"fmt"
	"math"
	"net"
	"net/mail"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"doorbell/events/forward"
	"doorbell/events/forward/webhook"
)

// check looks at everything that was read: first at each value, then at what must agree. A new
// setting is a field, and here a line. One thing is said of each value that is wrong, and nothing
// of what rests on it.
func (r *reader) check(c *Config, poll, forward bool) {
	for _, s := range r.settings {
		r.checkValue(s, c.Base.AllowPlaintext)
	}
	r.checkBase(c.Base)
	r.checkNATS(c.Base, c.NATS)
	if poll {
		r.checkPoll(c)
	}
	if forward {
		r.checkForward(c)
	}
	if poll || forward {
		r.checkProxy()
	}
}

// checkValue holds a value, or that of each agency, against the tags choice, min and max of its
// field and the shape of its type. 0 of a field with auto is auto.
func (r *reader) checkValue(s *Setting, plaintext Hosts) {
	if !r.good(s.Name) {
		return
	}
	p, choice := s.perAgency(), s.choice()
	for agency, v := range p.All() {
		trouble := ""
		if choice != nil && !slices.Contains(choice, v.Reveal()) {
			trouble = "is not one of its values; write one of " + strings.Join(choice, ", ")
		} else if p.shape.wrong != nil {
			trouble = p.shape.wrong(v.Reveal(), plaintext)
		}
		if trouble != "" {
			r.wrong(s.Name, whose(agency)+trouble)
		}
	}
	low, high := s.field.Tag.Get("min"), s.field.Tag.Get("max")
	if low == "" || s.Default == "auto" && s.value.IsZero() {
		return
	}
	v := amount(s.value)
	isWithin := v >= limit(s.field.Type, low) && v <= limit(s.field.Type, high) // NaN is not
	r.wrongIf(!isWithin, s.Name, "is out of range; write a value from "+low+" to "+high)
}

func amount(v reflect.Value) float64 {
	if v.Kind() == reflect.Float64 {
		return v.Float()
	}
	return float64(v.Int())
}

// limit reads a min or max tag in the notation of its field. A tag that is unfit is 0, which the
// test of the tags finds.
func limit(t reflect.Type, text string) float64 {
	v, _ := decode(t, text)
	return amount(v)
}

// whose begins a sentence about the value of an agency; with a value for all there is no need to.
func whose(agency string) string {
	if agency == AnyAgency {
		return ""
	}
	return "for " + agency + " "
}

var (
	subjectPrefix = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)
	subject       = regexp.MustCompile(`^[^\s.*>]+(\.[^\s.*>]+)*$`) // without wildcards
)

func (r *reader) checkBase(b Base) {
	r.wrongIf(!subjectPrefix.MatchString(b.SubjectPrefix) || len(b.SubjectPrefix) > 100,
		"DOORBELL_SUBJECT_PREFIX",
		"is not a NATS subject; write letters, digits, - and _, parts separated by dots")
	const name = "is not a name; write at most 32 letters, digits, - and _"
	r.wrongIf(b.Instance != "" && forward.ValidName(b.Instance) != nil, "DOORBELL_INSTANCE", name)
	r.wrongIf(b.Standby != "" && forward.ValidName(b.Standby) != nil, "DOORBELL_STANDBY", name)
	const listen = "is not an address to listen on; write host:port like %s, or off"
	r.wrongIf(!canListen(b.NATSListen), "DOORBELL_NATS_LISTEN",
		fmt.Sprintf(listen, "127.0.0.1:4222"))
	r.wrongIf(!canListen(b.HTTPListen), "DOORBELL_HTTP_LISTEN",
		fmt.Sprintf(listen, "127.0.0.1:3667"))
	r.checkToken("DOORBELL_HTTP_TOKEN", b.HTTPToken)
	r.checkToken("DOORBELL_FEED_TOKEN", b.FeedToken)
	r.wrongIf(b.FeedToken.Reveal() == b.HTTPToken.Reveal() && !b.FeedToken.IsZero(),
		"DOORBELL_FEED_TOKEN",
		"is the same as DOORBELL_HTTP_TOKEN, which may do more; make another one")
	trouble := URLTrouble(b.PingURL.Reveal(), b.AllowPlaintext)
	r.wrongIf(trouble != "" && !b.PingURL.IsZero(), "DOORBELL_PING_URL", trouble)
}

// checkToken wants a token that is hard to guess, as its holder may do everything, and can stand in
// a header.
func (r *reader) checkToken(name string, token Secret) {
	const remedy = "; make one with: openssl rand -hex 32"
	text := token.Reveal()
	r.wrongIf(unfitForHeader(text) >= 0, name,
		"holds a space or a character that cannot stand in a header"+remedy)
	r.wrongIf(!token.IsZero() && (len(text) < 16 || len(text) > 512), name,
		"has fewer than 16 characters, or more than 512"+remedy)
}

// canListen reports whether a text is "off" or host:port. Port 0 is any free one.
func canListen(text string) bool {
	host, port, err := net.SplitHostPort(text)
	_, odd := strconv.ParseUint(port, 10, 16)
	return text == "off" || err == nil && odd == nil && !strings.ContainsAny(host, " /@")
}

// checkNATS looks at the server to use, or at what the embedded one demands of guests.
func (r *reader) checkNATS(b Base, n NATS) {
	if n.URL == "" {
		host, _, err := net.SplitHostPort(b.NATSListen)
		credentials := !n.Token.IsZero() || n.User != "" && !n.Password.IsZero()
		r.wrongIf(err == nil && !Loopback(host) && !credentials, "DOORBELL_NATS_LISTEN",
			"lets other machines in without credentials; set NATS_USER and NATS_PASSWORD, "+
				"or NATS_TOKEN, or listen on 127.0.0.1")
		r.wrongIf(b.Standby != "", "DOORBELL_STANDBY",
			"needs an external NATS, which decides who works; set NATS_URL")
		return
	}
	name, _ := r.variable("NATS_URL")
	r.wrongIf(!areServers(string(n.URL)), name,
		"is not the address of a NATS server; write it like nats://host:4222 or tls://host:4222")
	r.wrongIf(n.User == "" && !n.Password.IsZero(), "NATS_PASSWORD",
		"is set without NATS_USER; set both, or NATS_TOKEN instead")
	r.wrongIf((n.Cert == "") != (n.Key == ""), "NATS_CERT",
		"and NATS_KEY belong together; set both or none")
	r.wrongIf(n.JSDomain != "" && (strings.Contains(n.JSDomain, ".") || !subject.MatchString(n.JSDomain)),
		"NATS_JS_DOMAIN",
		"is not the name of a domain, which holds no dots, spaces and wildcards; write it like hub")
	r.wrongIf(n.JSApiPrefix != "" && !subject.MatchString(strings.TrimSuffix(n.JSApiPrefix, ".")),
		"NATS_JS_API_PREFIX",
		"is not the beginning of a subject without wildcards; write it like JS.leads.API")
	r.wrongIf(n.JSDomain != "" && n.JSApiPrefix != "", "NATS_JS_DOMAIN",
		"and NATS_JS_API_PREFIX exclude each other; "+
			"set the domain behind a leaf node, the prefix where another account exports JetStream")
	for _, one := range [][2]string{
		{"NATS_CREDS", n.Creds},
		{"NATS_NKEY", n.Nkey},
		{"NATS_CA", n.CA},
		{"NATS_CERT", n.Cert},
		{"NATS_KEY", n.Key},
	} {
		if one[1] != "" && r.good(one[0]) {
			r.file(one[0], one[1])
		}
	}
}

func (r *reader) checkPoll(c *Config) {
	p := &c.Poll
	p.BaseURL = Address(strings.TrimRight(string(p.BaseURL), "/"))
	base := string(p.BaseURL)
	const name = "DOORBELL_BASE_URL"
	r.wrongIf(base == "", name,
		"is not set; write the address of the API, like https://api.example.com")
	trouble := URLTrouble(base, c.Base.AllowPlaintext)
	r.wrongIf(trouble != "", name, trouble)
	r.wrongIf(strings.ContainsAny(base, "?#"), name,
		"holds a query or fragment; leave out everything from the ? or #")
	for _, path := range []string{"/insertion-funnel", "/ubm-contact-request"} {
		r.wrongIf(strings.Contains(base+"/", path+"/"), name,
			"holds the path of an operation; write only what stands before "+path)
	}
	r.wrongIf(len(p.RecordsPath.Insertion) > 1 || len(p.RecordsPath.ContactRequest) > 1,
		"DOORBELL_RECORDS_PATH",
		"has several paths for one kind; write one, or none to learn it")
	if p.CAFile != "" {
		c.CAs = r.authorities(p.CAFile)
	}
	c.Agencies = r.agencies(*p)
	r.checkStaleness(time.Duration(p.MaxStaleness), p.RequestsPerSecond)
}

// authorities returns the system's certificate authorities and those of a file.
func (r *reader) authorities(file string) *x509.CertPool {
	all, err := x509.SystemCertPool()
	if err != nil { // there is none
		all = x509.NewCertPool()
	}
	isPEM := all.AppendCertsFromPEM([]byte(r.file("DOORBELL_CA_FILE", file)))
	r.wrongIf(!isPEM, "DOORBELL_CA_FILE", "names "+file+", which holds no certificate; "+
		"write the authority's in PEM form, which begins with -----BEGIN CERTIFICATE-----")
	return all
}

// checkStaleness refuses a cap that cannot be held even for a single insertion. How many there are
// is not known here.
func (r *reader) checkStaleness(limit time.Duration, rate float64) {
	if limit == 0 || !r.good("DOORBELL_REQUESTS_PER_SECOND") || limit.Seconds()*rate >= 1-1e-9 {
		return
	}
	r.wrongIf(true, "DOORBELL_MAX_STALENESS", fmt.Sprintf("is less than a single insertion needs: "+
		"set DOORBELL_REQUESTS_PER_SECOND to at least %g, or allow at least %s",
		math.Ceil(1e3/limit.Seconds()-1e-6)/1e3,
		time.Duration(float64(time.Second)/rate).Round(time.Millisecond)))
}

// checkForward holds the settings of each receiver against each other. A table of routes may name
// the addresses.
func (r *reader) checkForward(c *Config) {
	f := c.Forward
	r.wrongIf(!f.AgencyNames.Of(AnyAgency).IsZero(), "DOORBELL_AGENCY_NAMES",
		"gives one name to all agencies; write A100=Muster Immobilien AG")
	r.checkEmail(f)
	r.readTemplates(c)
	const secret = "DOORBELL_WEBHOOK_SECRET"
	r.wrongIf(f.WebhookURL.IsZero() && !f.WebhookSecret.IsZero() && f.RoutesFile == "" &&
		r.good("DOORBELL_WEBHOOK_URL"), secret, "is set without DOORBELL_WEBHOOK_URL; set both")
	r.checkOneAt(f.WebhookURL, secret, "secrets", f.WebhookSecret.PerAgency)
	r.checkOneAt(f.WebhookURL, "DOORBELL_WEBHOOK_TEMPLATE_FILE", "templates",
		f.WebhookTemplateFile.PerAgency)
}

func (r *reader) checkEmail(f Forward) {
	const server, password, from, to = "DOORBELL_EMAIL_SMTP", "DOORBELL_EMAIL_PASSWORD",
		"DOORBELL_EMAIL_FROM", "DOORBELL_EMAIL_TO"
	_, odd := mail.ParseAddress(f.EmailFrom)
	r.wrongIf(f.EmailFrom != "" && odd != nil, from, "is not an email address; "+
		"write it like leads@agency.example or Leads <leads@agency.example>")
	user := r.checkServer(server, string(f.EmailSMTP))
	if !r.good(server, password, from, to, "DOORBELL_EMAIL_ALERTS_TO", "DOORBELL_EMAIL_REPORT_TO") {
		return
	}
	recipients := !f.EmailTo.IsZero() || !f.EmailAlertsTo.IsZero() || !f.EmailReportTo.IsZero()
	if f.EmailSMTP == "" && f.EmailFrom == "" && f.EmailPassword.IsZero() && !recipients {
		return
	}
	missing := ""
	switch {
	case f.EmailSMTP == "":
		missing = server
	case f.EmailFrom == "":
		missing = from
	case !recipients && f.RoutesFile == "":
		missing = to
	}
	if missing != "" {
		r.wrong(missing, "is not set, and mail needs it; set DOORBELL_EMAIL_SMTP, "+
			"DOORBELL_EMAIL_FROM and DOORBELL_EMAIL_TO, or none of them")
		return
	}
	r.wrongIf(user != "" && f.EmailPassword.IsZero(), password, "is not set, and "+
		"DOORBELL_EMAIL_SMTP names a user; set it, or leave out what stands before the @")
	r.wrongIf(user == "" && !f.EmailPassword.IsZero(), password,
		"is set without a user; write smtp://user@host:587 into DOORBELL_EMAIL_SMTP")
}

// checkOneAt refuses two secrets or templates at one address: what is sent there is sent by one
// receiver.
func (r *reader) checkOneAt(addresses PerAgencyURL, name, what string, p PerAgency) {
	given := map[string]string{}
	for _, agency := range append(NamedIn(addresses.PerAgency, p), AnyAgency) {
		address := addresses.Revealed(agency)
		other, known := given[address]
		r.wrongIf(address != "" && known && other != p.Revealed(agency), name, "gives one address two "+
			what+"; write one, or another address for each (a query is enough)")
		given[address] = p.Revealed(agency)
	}
}

// readTemplates reads each file once. What is wrong with one is said without quoting it: it may
// hold credentials.
func (r *reader) readTemplates(c *Config) {
	const name = "DOORBELL_WEBHOOK_TEMPLATE_FILE"
	c.Templates = map[string]*webhook.Template{}
	for _, v := range c.Forward.WebhookTemplateFile.All() {
		path := v.Reveal()
		if c.Templates[path] != nil || !r.good(name) {
			continue
		}
		text := r.file(name, path)
		t, err := webhook.ParseTemplate(text)
		if err != nil {
			r.wrongIf(true, name, "names "+path+", which is refused: "+err.Error())
			continue
		}
		for i, known := range t.Types {
			r.wrongIf(known != ">" && !KnownType(known), name, fmt.Sprintf("names %s, which is refused: "+
				"at types: entry %d is not an event type; %s", path, i+1, TypeHint(known)))
		}
		c.Templates[path] = t
	}
}

// signingTrouble says what is wrong with the secrets of a webhook.
func signingTrouble(value string, _ Hosts) string {
	if webhook.ValidSecrets(value) == nil {
		return ""
	}
	return "is not a webhook secret; write whsec_ and 24 to 64 bytes in base64, or two of them " +
		"with a space between; this makes one: echo whsec_$(openssl rand -base64 32)"
}

// addressTrouble says what is wrong with an address that is posted to.
func addressTrouble(value string, plaintext Hosts) string {
	if _, second, comma := strings.Cut(value, ","); comma && strings.Contains(second, "://") {
		return "looks like two addresses; write A100=address,B200=address, " +
			"and %2C for a comma within an address"
	}
	return URLTrouble(value, plaintext)
}

// recipientTrouble says what is wrong with recipients.
func recipientTrouble(value string, _ Hosts) string { return RecipientsTrouble(value) }

// warnStrangers warns about settings for agencies that are not watched: they would be without it.
func (r *reader) warnStrangers(watched []Agency) {
	for _, s := range r.settings {
		for _, id := range s.perAgency().Named {
			known := slices.ContainsFunc(watched, func(a Agency) bool { return a.ID == id })
			if !known && len(watched) > 0 {
				r.warn(s.Name + " names " + id + ", which is not watched")
			}
		}
	}
}
