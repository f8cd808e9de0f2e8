package config

import (
	"crypto/x509"
	"fmt"
	"math"
	"net"
	"net/mail"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"

	"doorbell/events"
	"doorbell/events/forward"
	"doorbell/events/forward/webhook"
)

// validate looks at everything that was read: first at each value, then at what must agree. A new
// setting is a field, and here a line if it must agree with others. One thing is reported of each
// value that is wrong, and nothing of what rests on it.
func (r *reader) validate(c *Config, poll, forwards bool) {
	c.Poll.BaseURL = strings.TrimRight(c.Poll.BaseURL, "/")
	for _, s := range r.settings {
		r.validateValue(s, c.Base.AllowPlaintext)
	}
	b := c.Base
	r.wrongIf(b.FeedToken.Reveal() == b.HTTPToken.Reveal() && !b.FeedToken.IsZero(),
		"DOORBELL_FEED_TOKEN",
		"is the same as DOORBELL_HTTP_TOKEN, which permits more; create another one")
	r.validateNATS(b, c.NATS)
	if poll {
		r.validatePoll(c)
	}
	if forwards {
		r.validateForward(c)
	}
	r.warnUnwatched(c.Agencies)
	r.checkNames()
}

// validateValue holds each text of a value against the tags choice and is of its field, and a
// number against min and max. 0 of a field with auto is auto.
func (r *reader) validateValue(s *Setting, plaintext List) {
	if !r.good(s.Name) {
		return
	}
	tag := s.field.Tag
	for whose, text := range s.texts() {
		trouble := ""
		if choice := tag.Get("choice"); choice != "" {
			if !slices.Contains(strings.Split(choice, ","), text) {
				trouble = "must be one of " + strings.ReplaceAll(choice, ",", ", ")
			}
		} else if is := tag.Get("is"); is != "" && text != "" {
			trouble = troubles[is](text, plaintext)
		}
		if trouble != "" {
			r.wrong(s.Name, whose+trouble)
		}
	}
	low, high := tag.Get("min"), tag.Get("max")
	if low == "" || s.Default == "auto" && s.value.IsZero() {
		return
	}
	v := amount(s.value)
	isWithin := v >= limit(s.field.Type, low) && v <= limit(s.field.Type, high) // NaN is not
	r.wrongIf(!isWithin, s.Name, "must be between "+low+" and "+high)
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

// troubles return what is wrong with a text, empty for nothing, by the tag "is" of its field.
var troubles = map[string]func(text string, plaintext List) string{
	"address": URLTrouble,
	"agency": func(text string, _ List) string {
		if err := CheckAgencyID(text); err != nil {
			return err.Error()
		}
		return ""
	},
	"api prefix": matching(`^[^\s.*>]+(\.[^\s.*>]+)*\.?$`,
		"is not the beginning of a subject without wildcards; write it like JS.leads.API"),
	"domain": matching(`^[^\s.*>]+$`, "is not the name of a domain; write it like hub"),
	"file": func(text string, _ List) string {
		if _, trouble := ReadFile(text); trouble != "" {
			return "names " + text + ", which " + trouble
		}
		return ""
	},
	"filter": filterTrouble,
	"host": matching(`^[^/@*?\s:]+$|^[0-9a-fA-F:]+$`,
		"must be a host name alone, without scheme and port"),
	"key":    keyTrouble,
	"listen": listenTrouble,
	"name": func(text string, _ List) string {
		if forward.ValidName(text) != nil {
			return "is not a name; write at most 32 letters, digits, - and _"
		}
		return ""
	},
	"pointer":    pointerTrouble,
	"recipients": func(text string, _ List) string { return RecipientsTrouble(text) },
	"sender": func(text string, _ List) string {
		if _, err := mail.ParseAddress(text); err != nil {
			return "is not an email address; " +
				"write it like leads@agency.example or Leads <leads@agency.example>"
		}
		return ""
	},
	"servers": serversTrouble,
	"smtp":    smtpTrouble,
	"subject": func(text string, _ List) string {
		if err := events.ValidPrefix(text); err != nil {
			return err.Error()
		}
		return ""
	},
	"token": matching(`^[!-~]{16,512}$`,
		"must have 16 to 512 characters without spaces; create one with: openssl rand -hex 32"),
	"whsec": func(text string, _ List) string {
		if webhook.ValidSecrets(text) != nil {
			return "is not a webhook secret; write whsec_ and 24 to 64 bytes in base64, or two of " +
				"them with a space between; create one with: echo whsec_$(openssl rand -base64 32)"
		}
		return ""
	},
	"zone": func(text string, _ List) string {
		if _, err := time.LoadLocation(text); err != nil {
			return "is not a time zone; write a name from the IANA list, like Europe/Zurich or UTC"
		}
		return ""
	},
}

// matching returns a function that finds a trouble with texts that do not match a pattern.
func matching(pattern, trouble string) func(string, List) string {
	fit := regexp.MustCompile(pattern)
	return func(text string, _ List) string {
		if fit.MatchString(text) {
			return ""
		}
		return trouble
	}
}

// keyTrouble refuses what no header can carry, and more than a key: its name, a scheme, an agency,
// quotes or JSON. A key may end with =.
func keyTrouble(text string, _ List) string {
	const more = " \"'`{}=,"
	if isLine(text) && isASCII(text) && !strings.ContainsAny(strings.TrimRight(text, "="), more) {
		return ""
	}
	return "contains more than a key, or characters that no header can carry; " +
		"write the key alone, without name, scheme, agency, quotes or spaces"
}

func isASCII(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r > unicode.MaxASCII })
}

// URLTrouble returns what is wrong with an address that is called, empty for nothing: it has a
// scheme, a host, TLS unless the host is this machine or allowed, and no user or password.
func URLTrouble(text string, plaintext List) string {
	u, err := url.Parse(text)
	switch {
	case err != nil || !hasHost(u, "https", "http") || strings.ContainsAny(text, " \"<>\\{}"):
		return "is not an https:// address; write it whole, like https://api.example.com"
	case u.User != nil:
		return "contains a user or password; leave out everything before the @"
	case u.Scheme == "http" && !forward.MayBePlain(u.Hostname(), plaintext):
		return "uses plain http to another machine, which would expose secrets and personal data " +
			"on the way; write https://, or name the host in DOORBELL_ALLOW_PLAINTEXT"
	}
	return ""
}

// hasHost reports whether a URL has one of the schemes and names a host, and a port that exists or
// none. A comma begins another address.
func hasHost(u *url.URL, schemes ...string) bool {
	port, err := strconv.ParseUint(u.Port(), 10, 16)
	return slices.Contains(schemes, u.Scheme) && u.Hostname() != "" &&
		!strings.Contains(u.Path, ",http") &&
		!strings.HasSuffix(u.Host, ":") && (u.Port() == "" || err == nil && port > 0)
}

// Loopback reports whether a host name or address means this machine and nothing else.
func Loopback(host string) bool { return forward.MayBePlain(host, nil) }

// listenTrouble wants "off" or host:port. Port 0 is any free one.
func listenTrouble(text string, _ List) string {
	host, port, err := net.SplitHostPort(text)
	_, odd := strconv.ParseUint(port, 10, 16)
	if text == "off" || err == nil && odd == nil && !strings.ContainsAny(host, " /@") {
		return ""
	}
	return "is not an address to listen on; write host:port like 127.0.0.1:4222, or off"
}

func serversTrouble(text string, _ List) string {
	for server := range strings.SplitSeq(text, ",") {
		if server = strings.TrimSpace(server); !strings.Contains(server, "://") {
			server = "nats://" + server
		}
		if u, err := url.Parse(server); err != nil || !hasHost(u, "nats", "tls", "ws", "wss") {
			return "is not the address of a NATS server; write it like nats://host:4222 or tls://host:4222"
		}
	}
	return ""
}

// smtpTrouble looks at the address of a mail server. A server that offers no TLS is found out when
// it is connected to, and gets nothing.
func smtpTrouble(text string, _ List) string {
	u, err := url.Parse(text)
	if err != nil || !hasHost(u, "smtp", "smtps") ||
		strings.Trim(u.Path, "/")+u.RawQuery+u.Fragment != "" {
		return "is not the address of a mail server; " +
			"write it like smtp://user@host:587 or smtps://user@host:465, an @ in the user as %40"
	}
	if _, password := u.User.Password(); password {
		return "contains a password; write it into DOORBELL_EMAIL_PASSWORD, and only the user before the @"
	}
	return ""
}

// filterTrouble wants a query that holds only what the API can filter by, each once.
func filterTrouble(text string, _ List) string {
	const trouble = "is not a filter of the API, which has offerType, rankType and searchQuery, " +
		"each once; write it like offerType=RENT&searchQuery=8005"
	query, err := url.ParseQuery(text)
	if err != nil {
		return trouble
	}
	for name, values := range query {
		known := slices.Contains([]string{"offerType", "rankType", "searchQuery"}, name)
		if !known || len(values) != 1 || values[0] == "" {
			return trouble
		}
	}
	return ""
}

// pointerTrouble wants a kind of record and a JSON pointer. The whole document, which is the empty
// pointer, is no part of a record.
func pointerTrouble(text string, _ List) string {
	kind, pointer, _ := strings.Cut(text, ":")
	isKind := kind == "insertion" || kind == "contact_request"
	if isKind && len(pointer) > 1 && jsontext.Pointer(pointer).IsValid() {
		return ""
	}
	return "is not a pointer; write insertion:/path or contact_request:/path, separated by commas"
}

// maxRecipients bounds the recipients of one mail.
const maxRecipients = 50

// Recipients are the addresses of a value.
func Recipients(text string) []string {
	var all []string
	for one := range strings.SplitSeq(text, ";") {
		if one = strings.TrimSpace(one); one != "" {
			all = append(all, one)
		}
	}
	return all
}

// RecipientsTrouble returns what is wrong with addresses of mail, empty for nothing.
func RecipientsTrouble(text string) string {
	all := Recipients(text)
	if len(all) == 0 || len(all) > maxRecipients {
		return fmt.Sprintf("must name 1 to %d recipients; "+
			"write email addresses with ; between them, or that of a mailing list", maxRecipients)
	}
	for i, one := range all {
		a, err := mail.ParseAddress(one)
		if err != nil || !isLine(one) ||
			strings.ContainsAny(a.Address[strings.LastIndex(a.Address, "@"):], " ,") {
			return fmt.Sprintf("entry %d is not an email address; "+
				"write it like nora@agency.example, with ; between several", i+1)
		}
	}
	return ""
}

// validateNATS looks at the server to use, or at what the embedded one demands of guests.
func (r *reader) validateNATS(b Base, n NATS) {
	if n.URL == "" {
		host, _, err := net.SplitHostPort(b.NATSListen)
		credentials := !n.Token.IsZero() || n.User != "" && !n.Password.IsZero()
		r.wrongIf(err == nil && !Loopback(host) && !credentials, "DOORBELL_NATS_LISTEN",
			"lets other machines in without credentials; set NATS_USER and NATS_PASSWORD, "+
				"or NATS_TOKEN, or listen on 127.0.0.1")
		r.wrongIf(b.Standby != "", "DOORBELL_STANDBY",
			"needs an external NATS, which decides which doorbell is active; set NATS_URL")
		return
	}
	r.wrongIf(n.User == "" && !n.Password.IsZero(), "NATS_PASSWORD",
		"is set without NATS_USER; set both, or NATS_TOKEN instead")
	r.wrongIf((n.Cert == "") != (n.Key == ""), "NATS_CERT",
		"and NATS_KEY belong together; set both or none")
	r.wrongIf(n.JSDomain != "" && n.JSApiPrefix != "", "NATS_JS_DOMAIN",
		"and NATS_JS_API_PREFIX exclude each other; "+
			"set the domain behind a leaf node, the prefix where another account exports JetStream")
}

func (r *reader) validatePoll(c *Config) {
	p := c.Poll
	const base = "DOORBELL_BASE_URL"
	r.wrongIf(p.BaseURL == "", base,
		"is not set; write the address of the API, like https://api.example.com")
	r.wrongIf(strings.ContainsAny(p.BaseURL, "?#"), base,
		"contains a query or fragment; leave out everything from the ? or #")
	r.wrongIf(len(p.RecordsPath.Of("insertion")) > 1 || len(p.RecordsPath.Of("contact_request")) > 1,
		"DOORBELL_RECORDS_PATH", "has several paths for one kind; write one, or none to learn it")
	if p.CAFile != "" && r.good("DOORBELL_CA_FILE") {
		c.CAs = r.authorities(p.CAFile)
	}
	c.Agencies = r.agencies(p)
	limit := time.Duration(p.MaxStaleness).Seconds()
	r.wrongIf(limit > 0 && limit*p.RequestsPerSecond < 1-1e-9 &&
		r.good("DOORBELL_REQUESTS_PER_SECOND"),
		"DOORBELL_MAX_STALENESS", fmt.Sprintf("is less than a single insertion needs: "+
			"set DOORBELL_REQUESTS_PER_SECOND to at least %g, or allow at least %s",
			math.Ceil(1e3/limit-1e-6)/1e3,
			time.Duration(float64(time.Second)/p.RequestsPerSecond).Round(time.Millisecond)))
}

// authorities returns the system's certificate authorities and those of a file.
func (r *reader) authorities(file string) *x509.CertPool {
	all, err := x509.SystemCertPool()
	if err != nil { // there is none
		all = x509.NewCertPool()
	}
	isPEM := all.AppendCertsFromPEM([]byte(r.file("DOORBELL_CA_FILE", file)))
	r.wrongIf(!isPEM, "DOORBELL_CA_FILE", "names "+file+", which contains no certificate; "+
		"write the authority's in PEM form, which begins with -----BEGIN CERTIFICATE-----")
	return all
}

// agencies pairs agencies and keys, and reports which have none.
func (r *reader) agencies(p Poll) (list []Agency) {
	const watched, one, each = "DOORBELL_AGENCIES", "DOORBELL_API_KEY", "DOORBELL_API_KEYS"
	ids := []string(p.Agencies)
	if len(ids) == 0 {
		ids = p.APIKeys.Named
	}
	r.wrongIf(!p.APIKeys.Of(AnyAgency).IsZero() && !p.APIKey.IsZero(), each,
		"has a key for all agencies, and DOORBELL_API_KEY is set too; keep one of them")
	r.wrongIf(len(ids) == 0 && r.good(each), watched,
		"is not set; write the agencies to watch, like A100,B200, or name them in DOORBELL_API_KEYS")
	r.wrongIf(p.APIKey.IsZero() && p.APIKeys.IsZero() && r.good(each), one, "is not set; "+
		"write the key for all agencies, or one for each into DOORBELL_API_KEYS, like A100=key")
	if !r.good(watched, each, one) {
		return nil
	}
	var missing []string
	for _, id := range ids {
		a := Agency{ID: id, Key: p.APIKeys.Of(id)}
		if a.Key.IsZero() {
			a.Key = p.APIKey
		}
		if a.Key.IsZero() {
			missing = append(missing, id)
		}
		list = append(list, a)
	}
	r.wrongIf(len(missing) > 0, each, "has no key for "+strings.Join(missing, ", ")+
		"; add A100=key for each, or set DOORBELL_API_KEY for all agencies")
	return list
}

// validateForward holds the settings of mail against each other, and reads the templates.
func (r *reader) validateForward(c *Config) {
	r.validateEmail(c.Forward)
	const template = "DOORBELL_WEBHOOK_TEMPLATE_FILE"
	c.Templates = map[string]*webhook.Template{}
	for _, path := range c.Forward.WebhookTemplateFile.All() {
		if r.good(template) {
			c.Templates[path.Reveal()] = r.template(template, path.Reveal())
		}
	}
}

// validateEmail requires a server, a sender and a recipient, or none of them. A table of routes may
// name recipients.
func (r *reader) validateEmail(f Forward) {
	const server, password, from, to = "DOORBELL_EMAIL_SMTP", "DOORBELL_EMAIL_PASSWORD",
		"DOORBELL_EMAIL_FROM", "DOORBELL_EMAIL_TO"
	const missing = "is not set, and mail needs it; set DOORBELL_EMAIL_SMTP, " +
		"DOORBELL_EMAIL_FROM and DOORBELL_EMAIL_TO, or none of them"
	recipients := !f.EmailTo.IsZero() || !f.EmailAlertsTo.IsZero() || !f.EmailReportTo.IsZero()
	switch {
	case !r.good(server, password, from, to, "DOORBELL_EMAIL_ALERTS_TO", "DOORBELL_EMAIL_REPORT_TO"):
	case f.EmailSMTP == "" && f.EmailFrom == "" && f.EmailPassword.IsZero() && !recipients:
	case f.EmailSMTP == "":
		r.wrong(server, missing)
	case f.EmailFrom == "":
		r.wrong(from, missing)
	case !recipients && f.RoutesFile == "":
		r.wrong(to, missing)
	case strings.Contains(f.EmailSMTP, "@") == f.EmailPassword.IsZero():
		r.wrong(password, "and the user in DOORBELL_EMAIL_SMTP belong together; "+
			"set both, like smtp://user@host:587, or none")
	}
}

// template reads a template. What is wrong with it is said without quoting it: it may hold
// credentials.
func (r *reader) template(name, path string) *webhook.Template {
	t, err := webhook.ParseTemplate(r.file(name, path))
	if err != nil {
		r.wrongIf(true, name, "names "+path+", which is refused: "+err.Error())
		return nil
	}
	for i, known := range t.Types {
		r.wrongIf(known != ">" && !KnownType(known), name,
			fmt.Sprintf("names %s, which is refused: "+
				"at types: entry %d is not an event type; %s", path, i+1, TypesAre))
	}
	return t
}

// warnUnwatched warns about settings for agencies that are not watched: the watched ones would be
// without them.
func (r *reader) warnUnwatched(watched []Agency) {
	if len(watched) == 0 {
		return
	}
	for _, s := range r.settings {
		p, _ := s.value.Interface().(PerAgency)
		for _, id := range p.Named {
			if !slices.ContainsFunc(watched, func(a Agency) bool { return a.ID == id }) {
				r.warnings = append(r.warnings, s.Name+" names "+id+", which is not watched")
			}
		}
	}
}
