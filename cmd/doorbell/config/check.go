package config

import (
	"crypto/x509"
	"fmt"
	"math"
	"net"
	"net/url"
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
func (r *reader) check(c *Config) {
	plaintext := c.Base.AllowPlaintext
	for _, s := range r.settings {
		p, is := s.value.Interface().(interface{ perAgency() PerAgency })
		if !is || p.perAgency().IsZero() || p.perAgency().shape.wrong == nil {
			continue
		}
		for agency, v := range p.perAgency().All() {
			if trouble := p.perAgency().shape.wrong(whose(agency), v.Reveal(), plaintext); trouble != "" {
				r.wrong(s.Name, trouble)
			}
		}
	}
	r.checkBase(c.Base)
	r.wrongIf(c.Base.Standby != "" && c.NATS.URL == "", "DOORBELL_STANDBY",
		"needs an external NATS, which decides who works; set NATS_URL")
	r.checkNATS(c.Base, c.NATS)
	if !r.has(GroupPoll) && !r.has(GroupForward) {
		return
	}
	r.checkProxy()
	if r.has(GroupPoll) {
		r.checkPoll(c)
	}
	if r.has(GroupForward) {
		r.checkForward(c)
	}
	r.warnStrangers(c.Agencies)
}

var subjectPrefix = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)

func (r *reader) checkBase(b Base) {
	r.wrongIf(!subjectPrefix.MatchString(b.SubjectPrefix) || len(b.SubjectPrefix) > 100,
		"DOORBELL_SUBJECT_PREFIX",
		"is not a NATS subject; write letters, digits, - and _, parts separated by dots")
	r.wrongIf(b.Instance != "" && forward.ValidName(b.Instance) != nil, "DOORBELL_INSTANCE",
		"is not a name; write at most 32 letters, digits, - and _")
	r.wrongIf(b.Standby != "" && forward.ValidName(b.Standby) != nil, "DOORBELL_STANDBY",
		"is not a name; write at most 32 letters, digits, - and _")
	const listen = "is not an address to listen on; write host:port like %s, or off"
	r.wrongIf(!canListen(b.NATSListen), "DOORBELL_NATS_LISTEN",
		fmt.Sprintf(listen, "127.0.0.1:4222"))
	r.wrongIf(!canListen(b.HTTPListen), "DOORBELL_HTTP_LISTEN",
		fmt.Sprintf(listen, "127.0.0.1:3667"))
	r.wrongIf(b.HTTPListen == b.NATSListen && b.HTTPListen != "off" && !strings.HasSuffix(b.HTTPListen, ":0"), "DOORBELL_HTTP_LISTEN",
		"is the same as DOORBELL_NATS_LISTEN; give one of them another port")
	r.checkToken("DOORBELL_HTTP_TOKEN", b.HTTPToken)
	r.checkToken("DOORBELL_FEED_TOKEN", b.FeedToken)
	r.wrongIf(b.FeedToken.Reveal() == b.HTTPToken.Reveal() && !b.FeedToken.IsZero(), "DOORBELL_FEED_TOKEN",
		"is the same as DOORBELL_HTTP_TOKEN, which may do more; make another one")
	trouble := URLTrouble(b.PingURL.Reveal(), b.AllowPlaintext)
	r.wrongIf(trouble != "" && !b.PingURL.IsZero(), "DOORBELL_PING_URL", trouble)
}

// checkToken wants a token that is hard to guess, as its holder may do everything, and can stand in
// a header.
func (r *reader) checkToken(name string, token Secret) {
	const remedy = "; make one with: openssl rand -hex 32"
	text := token.Reveal()
	odd := strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c > '~' })
	r.wrongIf(odd, name, "holds a space or a character that cannot stand in a header"+remedy)
	r.wrongIf(!token.IsZero() && (len(text) < 16 || len(text) > 512), name,
		"has fewer than 16 characters, or more than 512"+remedy)
}

// canListen reports whether a text is "off" or host:port. Port 0 is any free one.
func canListen(text string) bool {
	host, port, err := net.SplitHostPort(text)
	_, odd := strconv.ParseUint(port, 10, 16)
	return text == "off" || err == nil && odd == nil && !strings.ContainsAny(host, " /@")
}

// checkNATS looks at the server to use, or at what the embedded one demands of guests. What is only
// for an external server has no effect on the embedded one, which may surprise.
func (r *reader) checkNATS(b Base, n NATS) {
	if n.URL == "" {
		r.warnIdle("NATS_URL", false, "NATS_CREDS", "NATS_NKEY", "NATS_CA", "NATS_CERT", "NATS_KEY",
			"NATS_JS_DOMAIN", "NATS_JS_API_PREFIX")
		host, _, err := net.SplitHostPort(b.NATSListen)
		if err == nil && !Loopback(host) && n.Token.IsZero() && (n.User == "" || n.Password.IsZero()) {
			r.wrongIf(true, "DOORBELL_NATS_LISTEN",
				"lets other machines in without credentials; set NATS_USER and NATS_PASSWORD, "+
					"or NATS_TOKEN, or listen on 127.0.0.1")
			return
		}
		r.warnIdle("NATS_PASSWORD", !n.Password.IsZero(), "NATS_USER")
		r.warnIdle("NATS_USER", n.User != "", "NATS_PASSWORD")
		return
	}
	name, _ := r.variable("NATS_URL")
	r.wrongIf(!areServers(string(n.URL)), name,
		"is not the address of a NATS server; write it like nats://host:4222 or tls://host:4222")
	r.wrongIf(n.User == "" && !n.Password.IsZero(), "NATS_PASSWORD",
		"is set without NATS_USER; set both, or NATS_TOKEN instead")
	r.wrongIf((n.Cert == "") != (n.Key == ""), "NATS_CERT",
		"and NATS_KEY belong together; set both or none")
	r.wrongIf(n.JSDomain != "" && (strings.Contains(n.JSDomain, ".") || !isSubject(n.JSDomain)),
		"NATS_JS_DOMAIN",
		"is not the name of a domain, which holds no dots, spaces and wildcards; write it like hub")
	r.wrongIf(n.JSApiPrefix != "" && !isSubject(strings.TrimSuffix(n.JSApiPrefix, ".")),
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
		r.readable(one[0], one[1])
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
	c.CAs = r.authorities(p.CAFile)
	c.Agencies = r.agencies(*p)
	r.checkStaleness(time.Duration(p.MaxStaleness), p.RequestsPerSecond)
}

// authorities returns the system's certificate authorities and those of a file.
func (r *reader) authorities(file string) *x509.CertPool {
	text, is := r.readable("DOORBELL_CA_FILE", file)
	if !is {
		return nil
	}
	all, err := x509.SystemCertPool()
	if err != nil { // there is none
		all = x509.NewCertPool()
	}
	r.wrongIf(!all.AppendCertsFromPEM([]byte(text)), "DOORBELL_CA_FILE",
		"names "+file+", which holds no certificate; "+
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

// checkForward holds the settings of each receiver against each other. Those of a receiver without
// an address are good for nothing, which is only odd. A table of routes may name the addresses.
func (r *reader) checkForward(c *Config) {
	f := c.Forward
	if _, is := r.readable("DOORBELL_ROUTES_FILE", f.RoutesFile); is {
		r.warnReadable("DOORBELL_ROUTES_FILE", f.RoutesFile)
	}
	table := f.RoutesFile != ""
	alone := "is set without %s; for alerts alone, write a line with the types access.>,watch.> into the table that DOORBELL_ROUTES_FILE names"
	for _, one := range []struct {
		name, alerts, idle string
		set, alertsSet     bool
	}{
		{"DOORBELL_SLACK_URL", "DOORBELL_SLACK_ALERTS_URL", "DOORBELL_SLACK_PEOPLE", !f.SlackURL.IsZero(), !f.SlackAlertsURL.IsZero()},
		{"DOORBELL_TEAMS_URL", "DOORBELL_TEAMS_ALERTS_URL", "DOORBELL_TEAMS_PEOPLE", !f.TeamsURL.IsZero(), !f.TeamsAlertsURL.IsZero()},
		{"DOORBELL_EMAIL_TO", "DOORBELL_EMAIL_ALERTS_TO", "DOORBELL_EMAIL_OPENIMMO", !f.EmailTo.IsZero(), !f.EmailAlertsTo.IsZero()},
	} {
		if r.good(one.name) && !table {
			r.wrongIf(one.alertsSet && !one.set, one.alerts, fmt.Sprintf(alone, one.name))
		}
		r.warnIdle(one.name, table || one.set, one.idle)
	}
	r.warnIdle("DOORBELL_WEBHOOK_URL", table || !f.WebhookURL.IsZero(), "DOORBELL_WEBHOOK_TEMPLATE_FILE")
	r.readTemplates(c)
	r.checkEmail(f, table)
	r.checkWebhook(f, table)
}

func (r *reader) checkEmail(f Forward, table bool) {
	const server, password, from, to = "DOORBELL_EMAIL_SMTP", "DOORBELL_EMAIL_PASSWORD",
		"DOORBELL_EMAIL_FROM", "DOORBELL_EMAIL_TO"
	user, trouble := smtpUser(string(f.EmailSMTP))
	r.wrongIf(trouble != "", server, trouble)
	if !r.good(server, password, from, to, "DOORBELL_EMAIL_ALERTS_TO") {
		return
	}
	given := map[string]bool{
		server: f.EmailSMTP != "", from: f.EmailFrom != "",
		to: !f.EmailTo.IsZero() || !f.EmailAlertsTo.IsZero(),
	}
	if !f.EmailReportTo.IsZero() { // which is enough of a recipient
		given[to] = true
	}
	if table && !given[to] { // the table may name the recipients
		delete(given, to)
	}
	some := !f.EmailPassword.IsZero() || given[server] || given[from] || given[to]
	for _, name := range []string{server, from, to} {
		is, needed := given[name]
		if some && needed && !is {
			r.wrong(name,
				"is not set, and mail needs it; set DOORBELL_EMAIL_SMTP, DOORBELL_EMAIL_FROM and DOORBELL_EMAIL_TO, or none of them")
			return
		}
	}
	r.wrongIf(user != "" && f.EmailPassword.IsZero(), password,
		"is not set, and DOORBELL_EMAIL_SMTP names a user; set it, or leave out what stands before the @")
	r.wrongIf(user == "" && !f.EmailPassword.IsZero(), password,
		"is set without a user; write smtp://user@host:587 into DOORBELL_EMAIL_SMTP")
}

func (r *reader) checkWebhook(f Forward, table bool) {
	const name, address, make = "DOORBELL_WEBHOOK_SECRET", "DOORBELL_WEBHOOK_URL",
		"; this makes one: echo whsec_$(openssl rand -base64 32)"
	if !r.good(address, name) {
		return
	}
	r.wrongIf(f.WebhookURL.IsZero() && !f.WebhookSecret.IsZero() && !table, name,
		"is set without DOORBELL_WEBHOOK_URL; set both")
	r.checkOneAt(f.WebhookURL, name, "secrets", f.WebhookSecret.PerAgency)
	r.checkOneAt(f.WebhookURL, "DOORBELL_WEBHOOK_TEMPLATE_FILE", "templates", f.WebhookTemplateFile.PerAgency)
	if !r.good(name) {
		return
	}
	for agency := range f.WebhookURL.All() {
		if f.WebhookSecret.Of(agency).IsZero() && f.WebhookTemplateFile.Of(agency).IsZero() { // services know other credentials
			r.warn(name + " is not set" + whose(agency) + ": the receiver cannot verify that events come from doorbell" + make)
			break
		}
	}
}

// checkOneAt refuses two secrets or templates at one address: what is sent there is sent by one
// receiver.
func (r *reader) checkOneAt(addresses PerAgencyURL, name, what string, p PerAgency) {
	given := map[string]string{}
	for _, agency := range append(NamedIn(addresses.PerAgency, p), AnyAgency) {
		address := addresses.Revealed(agency)
		other, known := given[address]
		r.wrongIf(address != "" && known && other != p.Revealed(agency), name,
			"gives one address two "+what+"; write one, or another address for each (a query is enough)")
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
		if c.Templates[path] != nil {
			continue
		}
		text, trouble := ReadFile(path)
		if trouble == "" {
			t, err := webhook.ParseTemplate(text)
			if err != nil {
				trouble = "is refused: " + err.Error()
			} else if at := slices.IndexFunc(t.Types, func(t string) bool { return t != ">" && !KnownType(t) }); at >= 0 {
				trouble = "is refused: at types: entry " + strconv.Itoa(at+1) + " is not an event type; " + TypeHint(t.Types[at])
			}
			c.Templates[path] = t
		}
		if trouble != "" {
			r.wrong(name, "names "+path+", which "+trouble)
			return
		}
		r.warnReadable(name, path)
	}
}

// signingTrouble says what is wrong with the secrets of a webhook.
func signingTrouble(whose, value string, _ Hosts) string {
	if webhook.ValidSecrets(value) == nil {
		return ""
	}
	return of(whose,
		"is not a webhook secret; write whsec_ and 24 to 64 bytes in base64, or two of them with a space between; "+
			"this makes one: echo whsec_$(openssl rand -base64 32)")
}

// addressTrouble says what is wrong with an address that is posted to.
func addressTrouble(whose, value string, plaintext Hosts) string {
	if _, second, comma := strings.Cut(value, ","); comma && strings.Contains(second, "://") {
		return of(whose,
			"looks like two addresses; write A100=address,B200=address, and %2C for a comma within an address")
	}
	return of(whose, URLTrouble(value, plaintext))
}

// recipientTrouble says what is wrong with recipients.
func recipientTrouble(whose, value string, _ Hosts) string {
	return of(whose, RecipientsTrouble(value))
}

// of puts what is wrong with the value of an agency after it.
func of(whose, trouble string) string {
	if trouble == "" {
		return ""
	}
	return strings.TrimSpace(whose + " " + trouble)
}

// whose names an agency within a sentence; with a value for all there is no need to.
func whose(agency string) string {
	if agency == AnyAgency {
		return ""
	}
	return " for " + agency
}

// warnIdle says which settings wait for another one.
func (r *reader) warnIdle(needed string, there bool, names ...string) {
	for _, name := range names {
		if !there && r.set(name) && r.good(name, needed) {
			r.warn(name + " has no effect without " + needed)
		}
	}
}

// warnStrangers warns about settings for agencies that are not watched.
func (r *reader) warnStrangers(watched []Agency) {
	ids := make(map[string]bool, len(watched))
	for _, a := range watched {
		ids[a.ID] = true
	}
	for _, s := range r.settings {
		p, is := s.value.Interface().(interface{ perAgency() PerAgency })
		if !is || len(ids) == 0 {
			continue
		}
		for _, id := range p.perAgency().Named {
			if !ids[id] {
				r.warn(s.Name + " names " + id + ", which is not watched")
			}
		}
	}
}

// checkRange holds a value against the tags choice, min and max of its field. 0 of a field with
// auto is auto.
func (r *reader) checkRange(s *Setting) {
	if choice := s.field.Tag.Get("choice"); choice != "" {
		r.wrongIf(!slices.Contains(strings.Split(choice, ","), s.value.String()), s.Name,
			"is not one of its values; write one of "+strings.ReplaceAll(choice, ",", ", "))
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
	return amount(reflect.ValueOf(v).Elem())
}

// smtpUser returns the user of a mail server, and what is wrong with the server's address. A server
// that speaks no TLS is found out when it is spoken to, and gets nothing.
func smtpUser(text string) (user, trouble string) {
	u, err := url.Parse(text)
	if text == "" {
		return "", ""
	}
	if err != nil || u.Scheme != "smtp" && u.Scheme != "smtps" {
		return "",
			"is not the address of a mail server; write it like smtp://user@host:587 or smtps://user@host:465"
	}
	switch _, password := u.User.Password(); {
	case password:
		trouble = "holds a password; write it into DOORBELL_EMAIL_PASSWORD, and the user alone before the @"
	case !goodHost(strings.ToLower(u.Hostname())) || !goodPort(u):
		trouble = "names no usable host; write it like smtp://user@host:587. An @ in the user is written %40"
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "":
		trouble = "holds more than a server; leave out what follows the port"
	case linkLocal(u.Hostname()):
		trouble = "names a link-local address, where no mail server can be; write the server's own"
	}
	return u.User.Username(), trouble
}
