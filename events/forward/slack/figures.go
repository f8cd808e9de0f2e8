package slack

import (
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"doorbell/events"
)

// when is a moment in the reader's own time zone and language, and how long ago it was. Clients that cannot do that show the
// text after the bar.
func (l look) when(t time.Time) markup {
	return markup(fmt.Sprintf("<!date^%d^{date_short_pretty} at {time} ({ago})|%s>", t.Unix(), l.stamp(t)))
}

// stamp is a moment in the configured zone, for texts in which Slack formats nothing.
func (l look) stamp(t time.Time) string { return t.In(l.zone).Format("2 Jan 2006, 15:04 MST") }

func (l look) clock(t time.Time) string { return t.In(l.zone).Format("2 Jan, 15:04 MST") }

// plainNumber is a number that can be shown with its digits grouped. Others are shown as they are.
var plainNumber = regexp.MustCompile(`^(-?)([0-9]{1,12})(?:\.([0-9]{1,12}))?$`)

// grouped writes a number as it is written in Switzerland: 2'890, and 2'890.50 with a part of a franc.
func grouped(n json.Number) string {
	parts := plainNumber.FindStringSubmatch(string(n))
	if parts == nil {
		return string(n)
	}
	whole, cents := strings.TrimLeft(parts[2], "0"), strings.TrimRight(parts[3], "0")
	if whole == "" {
		whole = "0"
	}
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "'" + whole[i:]
	}
	switch len(cents) {
	case 0:
		return parts[1] + whole
	case 1:
		cents += "0"
	}
	return parts[1] + whole + "." + cents
}

// price is CHF 2'890 / month, or CHF 1'250'000 where there is no interval.
func price(p *events.Price) string {
	if p == nil || p.Amount == "" {
		return ""
	}
	s := strings.TrimSpace(p.Currency + " " + grouped(p.Amount))
	if p.Interval != "" {
		s += " / " + strings.ToLower(p.Interval)
	}
	return s
}

// score is the API's value, whatever its kind: a number, a text, or nothing worth showing.
func score(raw json.RawMessage) string {
	if len(raw) == 0 {
		return ""
	}
	var s string
	if json.Unmarshal(raw, &s) == nil {
		return line(s)
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	if err != nil {
		return ""
	}
	return strconv.FormatFloat(f, 'g', 6, 64)
}

// facts is one line: 3.5 rooms · 84 m² · CHF 2'890 / month.
func facts(s events.InsertionSummary) string {
	var known []string
	if s.Rooms != "" {
		known = append(known, string(s.Rooms)+" rooms")
	}
	if s.LivingSpace != "" {
		known = append(known, string(s.LivingSpace)+" m²")
	}
	if p := price(s.Price); p != "" {
		known = append(known, p)
	}
	return line(strings.Join(known, " · "))
}

// place is street, postal code and locality, as far as they are known.
func place(s events.InsertionSummary) string {
	return strings.Trim(line(s.Street)+", "+line(s.PostalCode+" "+s.Locality), ", ")
}

// Addresses that may become links. They are narrower than the standards: what does not fit is shown, but not as a link.
var (
	mailAddress = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._+-]{0,63}@(?:[A-Za-z0-9-]{1,63}\.)+[A-Za-z]{2,24}$`)
	phoneNumber = regexp.MustCompile(`^\+[1-9][0-9]{5,14}$`)
	hostName    = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{0,99}$`)
)

// mailLink opens a letter to a person, with the insertion as its subject.
func mailLink(address, subject string) markup {
	address = strings.TrimSpace(address)
	if len(address) > 200 || !mailAddress.MatchString(address) {
		return ""
	}
	target := "mailto:" + address
	if subject = first(line(subject), 80); subject != "" {
		target += "?subject=" + strings.ReplaceAll(url.QueryEscape(subject), "+", "%20")
	}
	return link(target, "Write an e-mail")
}

func callLink(phone string) markup {
	if !phoneNumber.MatchString(phone) {
		return ""
	}
	return link("tel:"+phone, "Call")
}

// insertionLink leads to the insertion, and says to which host: the label is all that most readers see of an address.
func insertionLink(address string) markup {
	u, err := url.Parse(strings.TrimSpace(address))
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.User != nil || len(address) > 1_000 {
		return ""
	}
	host := strings.ToLower(u.Hostname())
	if !hostName.MatchString(host) {
		return ""
	}
	return link(u.String(), markup("Insertion on "+host))
}

// link is the one place where an address becomes markup.
func link(target string, label markup) markup {
	return "<" + markup(encode(target)) + "|" + label + ">"
}

// encode leaves nothing in an address that could end it or mean anything to Slack.
func encode(address string) string {
	const harmless = "-._~:/?#[]@!$'()+,;=%"
	var b strings.Builder
	for _, c := range []byte(address) {
		switch {
		case '0' <= c && c <= '9', 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z', strings.IndexByte(harmless, c) >= 0:
			b.WriteByte(c)
		case c == '&':
			b.WriteString("&amp;")
		default:
			fmt.Fprintf(&b, "%%%02X", c)
		}
	}
	return b.String()
}

// count is "1 insertion", "2 insertions".
func count(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return grouped(json.Number(strconv.Itoa(n))) + " " + one + "s"
}
