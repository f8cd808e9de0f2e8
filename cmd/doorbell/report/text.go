package report

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"doorbell/events/forward/message"
)

// mostListed bounds the lists of a text. The CSV has all.
const mostListed = 20

// Headline is the report in one sentence.
func (r Report) Headline() string {
	t := r.Total
	switch {
	case t.Seen == 0:
		return "No lead arrived."
	case t.Published == t.Seen && t.Delivered == t.Seen:
		return fmt.Sprintf("Nothing was overlooked: %d seen = %d published = %d delivered.", t.Seen,
			t.Published, t.Delivered)
	case t.Published == t.Seen && t.NoReceiver == t.Seen:
		return fmt.Sprintf("%d seen = %d published. No receiver is configured for them.", t.Seen,
			t.Published)
	}
	text := fmt.Sprintf("%d seen, %d published, %d delivered", t.Seen, t.Published, t.Delivered)
	for _, part := range []struct {
		n    int
		what string
	}{
		{t.Seen - t.Published, "not published yet"},
		{t.Waiting, "waiting"},
		{t.Rejected, "rejected by a receiver"},
		{t.NoReceiver, "without a receiver"},
		{t.Erased, "erased before delivery"},
	} {
		if part.n > 0 {
			text += fmt.Sprintf("; %d %s", part.n, part.what)
		}
	}
	return text + "."
}

// Text renders the report for people.
func (r Report) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Leads from %s to %s (%s)\n\n", r.time(r.From), r.time(r.To), r.Zone)
	fmt.Fprintf(&b, "%s\n\n", r.Headline())
	for _, p := range r.Problems {
		fmt.Fprintf(&b, "Incomplete: %s\n\n", message.Line(p, 300))
	}
	if len(r.Agencies) > 0 {
		const row = "%-16s %6v %10v %10v %8v %9v %12v\n"
		fmt.Fprintf(&b, row, "AGENCY", "SEEN", "PUBLISHED", "DELIVERED", "WAITING", "REJECTED",
			"NO RECEIVER")
		for _, a := range r.Agencies {
			fmt.Fprintf(&b, row, message.Line(a.AgencyID, 16), a.Seen, a.Published, a.Delivered,
				a.Waiting, a.Rejected, a.NoReceiver)
		}
		b.WriteString("\n")
	}
	delays(&b, "From a person's request to its event", r.Seen)
	delays(&b, "From a person's request to its last receiver", r.Delivered)
	for _, a := range r.Agencies {
		with := len(a.Listings) - a.Without
		if with > 0 {
			fmt.Fprintf(&b, "%s: listings with leads\n", message.Line(a.AgencyID, 16))
			list(&b, a.Listings[:with], true)
		}
		if a.Without > 0 {
			fmt.Fprintf(&b, "%s: %d of %d listings had no lead\n", message.Line(a.AgencyID, 16),
				a.Without, len(a.Listings))
			list(&b, a.Listings[with:], false)
		}
	}
	r.notices(&b, "Gaps in which leads may have been missed", "gap")
	r.notices(&b, "Halts and their ends", "halted", "resumed")
	r.notices(&b, "Messages that a receiver rejected", "rejected")
	return strings.TrimRight(b.String(), "\n") + "\n"
}

func list(b *strings.Builder, listings []Listing, leads bool) {
	defer b.WriteString("\n")
	for n, l := range listings {
		if n == mostListed {
			fmt.Fprintf(b, "  and %d more, which the CSV lists\n", len(listings)-n)
			return
		}
		if leads {
			fmt.Fprintf(b, "%5d", l.Seen)
		}
		fmt.Fprintf(b, "  %s  %s\n", message.Line(l.Reference, 40), message.Line(l.Title, 40))
	}
}

func delays(b *strings.Builder, what string, d Delays) {
	if d.Leads == 0 {
		return
	}
	fmt.Fprintf(b, "%s: median %s, longest %s (%s %s); leads: %d.\n\n", what,
		seconds(d.MedianSeconds), seconds(d.LongestSeconds), message.Line(d.AgencyID, 16),
		message.Line(d.Reference, 60), d.Leads)
}

func seconds(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Second).String()
}

// notices lists those of some kinds.
func (r Report) notices(b *strings.Builder, title string, kinds ...string) {
	other := func(n Notice) bool { return !slices.Contains(kinds, n.What) }
	list := slices.DeleteFunc(slices.Clone(r.Notices), other)
	if len(list) == 0 {
		b.WriteString(title + ": none\n\n")
		return
	}
	fmt.Fprintf(b, "%s: %d\n", title, len(list))
	for _, n := range list[:min(len(list), mostListed)] {
		fmt.Fprintf(b, "  %s %s %s: %s\n", r.time(n.At),
			message.Line(n.AgencyID+" "+n.Reference, 32),
			n.What, message.Line(n.Detail, 300))
	}
	if older := len(list) - mostListed; older > 0 {
		fmt.Fprintf(b, "  and %d older ones\n", older)
	}
	b.WriteString("\n")
}

// time renders a time in the zone of the report.
func (r Report) time(at time.Time) string {
	return at.In(message.Zone(r.Zone)).Format("2006-01-02 15:04")
}

// WriteCSV renders the report as a table: its first column says what a row is about.
func (r Report) WriteCSV(w io.Writer) error {
	c, err := NewCSV(w, "row", "agency", "reference", "title", "seen", "published", "delivered",
		"waiting", "rejected",
		"no_receiver", "erased", "time", "detail")
	counts := func(what string, l Listing, at, detail string) {
		cells := []string{what, l.AgencyID, l.Reference, l.Title}
		for _, n := range []int{
			l.Seen, l.Published, l.Delivered, l.Waiting, l.Rejected,
			l.NoReceiver, l.Erased,
		} {
			cells = append(cells, strconv.Itoa(n))
		}
		if err == nil {
			err = c.Row(append(cells, at, detail)...)
		}
	}
	note := func(what, agency, reference, at, detail string) {
		if err == nil {
			err = c.Row(what, agency, reference, "", "", "", "", "", "", "", "", at, detail)
		}
	}
	counts("total", Listing{Counts: r.Total}, r.time(r.To),
		"from "+r.time(r.From)+" to "+r.time(r.To)+" "+r.Zone)
	for _, p := range r.Problems {
		note("incomplete", "", "", "", p)
	}
	for _, a := range r.Agencies {
		counts("agency", Listing{AgencyID: a.AgencyID, Counts: a.Counts}, "", "")
	}
	for _, a := range r.Agencies {
		for _, l := range a.Listings {
			counts("listing", l, "", "")
		}
	}
	delays := func(what string, d Delays) {
		if d.Leads > 0 {
			note(what, d.AgencyID, d.Reference, "",
				seconds(d.LongestSeconds)+", median "+seconds(d.MedianSeconds))
		}
	}
	delays("longest to event", r.Seen)
	delays("longest to last receiver", r.Delivered)
	for _, n := range r.Notices {
		note(n.What, n.AgencyID, n.Reference, r.time(n.At), n.Detail)
	}
	return err
}
