package config

import (
	"net/mail"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"doorbell/events/forward/webhook"
)

// mostRecipients bounds the recipients of one mail.
const mostRecipients = 50

// checkForward holds the settings of each receiver against each other. Those of a receiver without an address are good for nothing,
// which is only odd.
func (r *reader) checkForward(c *Config) {
	f := c.Forward
	r.checkChat("DOORBELL_SLACK", f.SlackURL, f.SlackAlertsURL, f, c.Base.AllowPlaintext)
	r.checkChat("DOORBELL_TEAMS", f.TeamsURL, f.TeamsAlertsURL, f, c.Base.AllowPlaintext)
	r.checkEmail(f)
	r.checkWebhook(f, c.Base.AllowPlaintext)
	table := f.RoutesFile != ""
	if _, trouble := ReadFile(f.RoutesFile); table && trouble != "" {
		r.wrong("DOORBELL_ROUTES_FILE", "names "+f.RoutesFile+", which "+trouble)
	} else if table {
		r.warnReadable("DOORBELL_ROUTES_FILE", f.RoutesFile)
	}
	r.warnIdle("DOORBELL_SLACK_URL", table || !f.SlackURL.IsZero(), "SLACK_PEOPLE")
	r.warnIdle("DOORBELL_TEAMS_URL", table || !f.TeamsURL.IsZero(), "TEAMS_PEOPLE")
	r.warnIdle("DOORBELL_EMAIL_TO", table || !f.EmailTo.IsZero(), "EMAIL_OPENIMMO")
	if len(c.Agencies) > 0 {
		r.warnStrangers(c)
	}
}

// warnIdle says which settings wait for another one.
func (r *reader) warnIdle(needed string, there bool, names ...string) {
	for _, s := range r.settings {
		if !there && slices.Contains(names, strings.TrimPrefix(s.Name, "DOORBELL_")) && s.Source != SourceDefault && r.good(s.Name, needed) {
			r.warn(s.Name + " has no effect without " + needed)
		}
	}
}

// warnStrangers says which agencies nobody watches.
func (r *reader) warnStrangers(c *Config) {
	watched := make(map[string]bool, len(c.Agencies))
	for _, a := range c.Agencies {
		watched[a.ID] = true
	}
	for _, s := range r.settings {
		naming, ok := s.value.Interface().(interface{ named() []string })
		if !ok || s.Group != GroupForward && s.Name != "DOORBELL_PEOPLE" {
			continue
		}
		for _, id := range naming.named() {
			if !watched[id] {
				r.warn(s.Name + " names " + id + ", which is not watched")
			}
		}
	}
}

// checkChat checks the addresses of a chat. The name is what those of its settings begin with.
func (r *reader) checkChat(name string, url, alerts PerAgencyURL, f Forward, plaintext Hosts) {
	r.checkReceiverURLs(name+"_URL", url, plaintext)
	r.checkReceiverURLs(name+"_ALERTS_URL", alerts, plaintext)
	if !alerts.IsZero() && url.IsZero() && f.RoutesFile == "" && r.good(name+"_URL") {
		r.wrong(name+"_ALERTS_URL", "is set without "+name+"_URL; for alerts alone, write a line with the types access.>,watch.> into the table that DOORBELL_ROUTES_FILE names")
	}
}

// checkReceiverURLs wants addresses that can be posted to. An address may hold a token, so nothing of it is quoted.
func (r *reader) checkReceiverURLs(name string, p PerAgencyURL, plaintext Hosts) {
	for agency, v := range p.All() {
		text := v.Reveal()
		if _, second, comma := strings.Cut(text, ","); comma && strings.Contains(second, "://") {
			r.wrongOf(name, agency, "looks like two addresses; write A100=address,B200=address, and %2C for a comma within an address")
		} else if trouble := URLTrouble(text, plaintext); trouble != "" {
			r.wrongOf(name, agency, trouble)
		}
	}
}

// wrongOf says what is wrong with the value of an agency; with a value for all there is no need to name one.
func (r *reader) wrongOf(name, agency, text string) {
	r.wrong(name, strings.TrimPrefix(whose(agency)+" "+text, " "))
}

// whose names an agency within a sentence; with a value for all there is no need to.
func whose(agency string) string {
	if agency == AnyAgency {
		return ""
	}
	return " for " + agency
}

func (r *reader) checkWebhook(f Forward, plaintext Hosts) {
	r.checkReceiverURLs("DOORBELL_WEBHOOK_URL", f.WebhookURL, plaintext)
	for agency, v := range f.WebhookSecret.All() {
		if err := webhook.ValidSecrets(v.Reveal()); err != nil {
			r.wrongOf("DOORBELL_WEBHOOK_SECRET", agency, "is not a webhook secret; write whsec_ and 24 to 64 bytes in base64, or two of them with a space between; "+
				"this makes one: echo whsec_$(openssl rand -base64 32)")
		}
	}
	if !r.good("DOORBELL_WEBHOOK_URL", "DOORBELL_WEBHOOK_SECRET") {
		return
	}
	if f.WebhookURL.IsZero() && !f.WebhookSecret.IsZero() && f.RoutesFile == "" {
		r.wrong("DOORBELL_WEBHOOK_SECRET", "is set without DOORBELL_WEBHOOK_URL; set both")
	}
	r.checkOneSecret(f)
	if !r.good("DOORBELL_WEBHOOK_SECRET") {
		return
	}
	for agency := range f.WebhookURL.All() {
		if f.WebhookSecret.Of(agency).IsZero() {
			r.warn("DOORBELL_WEBHOOK_SECRET is not set" + whose(agency) + ": who receives events cannot tell them from anybody else's; " +
				"this makes one: echo whsec_$(openssl rand -base64 32)")
			break
		}
	}
}

// checkOneSecret refuses two secrets at one address: what is sent there is sent by one receiver.
func (r *reader) checkOneSecret(f Forward) {
	secrets := map[string]string{}
	for _, agency := range append(NamedIn(f.WebhookURL.PerAgency, f.WebhookSecret.PerAgency), AnyAgency) {
		address := f.WebhookURL.Revealed(agency)
		if address == "" {
			continue
		}
		if other, known := secrets[address]; known && other != f.WebhookSecret.Revealed(agency) {
			r.wrong("DOORBELL_WEBHOOK_SECRET", "gives one address two secrets; write one, or another address for each (a query is enough)")
			return
		}
		secrets[address] = f.WebhookSecret.Revealed(agency)
	}
}

func (r *reader) checkEmail(f Forward) {
	r.checkRecipients("DOORBELL_EMAIL_TO", f.EmailTo)
	r.checkRecipients("DOORBELL_EMAIL_ALERTS_TO", f.EmailAlertsTo)
	r.checkRecipients("DOORBELL_EMAIL_REPORT_TO", f.EmailReportTo)
	user := ""
	if f.EmailSMTP != "" {
		u, trouble := smtpServer(string(f.EmailSMTP))
		if trouble != "" {
			r.wrong("DOORBELL_EMAIL_SMTP", trouble)
		} else {
			user = u.User.Username()
		}
	}
	if !r.good("DOORBELL_EMAIL_SMTP", "DOORBELL_EMAIL_PASSWORD", "DOORBELL_EMAIL_FROM", "DOORBELL_EMAIL_TO") {
		return
	}
	if !f.EmailAlertsTo.IsZero() && f.EmailTo.IsZero() && f.RoutesFile == "" {
		r.wrong("DOORBELL_EMAIL_ALERTS_TO", "is set without DOORBELL_EMAIL_TO; for alerts alone, write a line with the types access.>,watch.> into the table that DOORBELL_ROUTES_FILE names")
		return
	}
	type setting struct {
		name string
		not  bool
	}
	needed := []setting{{"DOORBELL_EMAIL_SMTP", f.EmailSMTP == ""}, {"DOORBELL_EMAIL_FROM", f.EmailFrom == ""}}
	switch {
	case !f.EmailReportTo.IsZero(): // which is enough of a recipient
		needed = append(needed, setting{"DOORBELL_EMAIL_REPORT_TO", false})
	case f.RoutesFile == "" || !f.EmailTo.IsZero() || !f.EmailAlertsTo.IsZero(): // else a table may name the recipients
		needed = append(needed, setting{"DOORBELL_EMAIL_TO", f.EmailTo.IsZero() && f.EmailAlertsTo.IsZero()})
	}
	missing := slices.DeleteFunc(slices.Clone(needed), func(s setting) bool { return !s.not })
	if n := len(missing); n > 0 && (n < len(needed) || !f.EmailPassword.IsZero()) {
		r.wrong(missing[0].name, "is not set, and mail needs it; set DOORBELL_EMAIL_SMTP, DOORBELL_EMAIL_FROM and DOORBELL_EMAIL_TO, or none of them")
		return
	}
	switch {
	case user != "" && f.EmailPassword.IsZero():
		r.wrong("DOORBELL_EMAIL_PASSWORD", "is not set, and DOORBELL_EMAIL_SMTP names a user; set it, or leave out what stands before the @")
	case user == "" && !f.EmailPassword.IsZero():
		r.wrong("DOORBELL_EMAIL_PASSWORD", "is set without a user; write smtp://user@host:587 into DOORBELL_EMAIL_SMTP")
	}
}

func (r *reader) checkRecipients(name string, to PerAgencyMail) {
	for agency, v := range to.All() {
		if trouble := RecipientsTrouble(v.Reveal()); trouble != "" {
			r.wrongOf(name, agency, trouble)
		}
	}
}

// smtpServer reads the address of a server, or says what is wrong with it. A server that speaks no TLS is found out when it is
// spoken to, and gets nothing.
func smtpServer(text string) (*url.URL, string) {
	u, err := url.Parse(text)
	password := false
	if err == nil {
		_, password = u.User.Password()
	}
	switch {
	case err != nil || u.Scheme != "smtp" && u.Scheme != "smtps":
		return nil, "is not the address of a mail server; write it like smtp://user@host:587 or smtps://user@host:465"
	case password:
		return nil, "holds a password; write it into DOORBELL_EMAIL_PASSWORD, and the user alone before the @"
	case !goodHost(strings.ToLower(u.Hostname())) || !goodPort(u):
		return nil, "names no usable host; write it like smtp://user@host:587. An @ in the user is written %40"
	case u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.Fragment != "":
		return nil, "holds more than a server; leave out what follows the port"
	case linkLocal(u.Hostname()):
		return nil, "names a link-local address, where no mail server can be; write the server's own"
	}
	return u, ""
}

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

// RecipientsTrouble says what is wrong with addresses of mail, empty for nothing.
func RecipientsTrouble(text string) string {
	all := Recipients(text)
	switch {
	case len(all) == 0:
		return "names no recipient; write email addresses with ; between them"
	case len(all) > mostRecipients:
		return "names more than " + strconv.Itoa(mostRecipients) + " recipients; write the address of a mailing list instead"
	}
	for i, one := range all {
		a, err := mail.ParseAddress(one)
		if err == nil {
			_, domain, _ := strings.Cut(a.Address, "@")
			if plain(one) && !strings.ContainsAny(domain, " ,") {
				continue
			}
		}
		return "entry " + strconv.Itoa(i+1) + " is not an email address; write it like nora@agency.example, with ; between several"
	}
	return ""
}
