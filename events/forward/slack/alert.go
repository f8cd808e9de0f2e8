package slack

import (
	"fmt"
	"strings"
	"time"

	"doorbell/events"
	"doorbell/events/forward"
)

// grade is how bad an alert is, as a colour.
type grade struct{ emoji, color string }

var (
	bad  = grade{"🚨", "#c8102e"}
	warn = grade{"⚠️", "#e8912d"}
	good = grade{"✅", "#2eb67d"}
)

// alert is one event that tells how the watch itself is.
type alert struct {
	grade
	title   string   // the same for all that are alike
	what    string   // what happened, the same for all that are alike
	advice  string   // what to do; may be foreign
	command string   // what to type
	detail  string   // what is of this one alone: an insertion, numbers
	alike   []string // alerts of one title and of equal words here are told together
	agency  string
	at      time.Time
}

// bundle is alerts that are alike.
type bundle []alert

const (
	maxBundles  = 8 // of six blocks at most, under one header
	maxCommands = 5
)

// alerts is the message for alerts: one attachment for each kind, with a coloured bar.
func (l look) alerts(d forward.Delivery) (message, error) {
	if _, ok := alertOf(d.Events[0]); !ok && len(d.Events) == 1 {
		return message{}, &forward.Never{Reason: fmt.Sprintf("this version cannot show %s", d.Events[0].Type)}
	}
	bundles := bundleUp(d.Events)
	title := mark(d, alertTitle(bundles))
	m := message{Blocks: blocks{header(title)}}
	for _, group := range bundles[:min(len(bundles), maxBundles)] {
		m.Attachments = append(m.Attachments, l.attach(group, len(bundles) > 1))
	}
	var small blocks
	if left := len(bundles) - maxBundles; left > 0 {
		small.section(marked(markup("*" + count(left, "more kind") + " of alerts*; see: doorbell events ls")))
	}
	small.context(provenance(d)...)
	m.Blocks = append(m.Blocks, small...)
	fallback := title
	if what := bundles[0][0].what; what != "" {
		fallback += ". " + what
	}
	m.Text = escape(line(fallback), maxFallback)
	return m, nil
}

// bundleUp keeps the order of the stream, of bundles by their first alert.
func bundleUp(list []events.Event) []bundle {
	var all []bundle
	known := map[string]int{}
	for _, e := range list {
		a, _ := alertOf(e)
		key := strings.Join(append([]string{a.title}, a.alike...), "\x00")
		i, again := known[key]
		if !again {
			i = len(all)
			known[key], all = i, append(all, nil)
		}
		all[i] = append(all[i], a)
	}
	return all
}

func alertTitle(all []bundle) string {
	if len(all) == 1 {
		return all[0][0].emoji + " " + all[0].title()
	}
	worst, n := good, 0
	for _, b := range all {
		n += len(b)
		if g := b[0].grade; g == bad || g == warn && worst == good {
			worst = g
		}
	}
	return worst.emoji + " " + count(n, "alert")
}

func (b bundle) title() string {
	names := b.names()
	if len(names) == 1 {
		return b[0].title + ": " + fit(names[0], 60)
	}
	return b[0].title + ": " + fmt.Sprintf("%d agencies", len(names))
}

// names are the agencies, each once.
func (b bundle) names() []string {
	var names []string
	known := map[string]bool{}
	for _, a := range b {
		if !known[a.agency] {
			known[a.agency] = true
			names = append(names, line(a.agency))
		}
	}
	return names
}

// attach draws a bundle: title where there are several, whom it concerns, what happened, what to do, what to type, when.
func (l look) attach(b bundle, several bool) attachment {
	first := b[0]
	var inside blocks
	if several {
		inside.section(plain(first.emoji+" "+b.title(), l.room.line))
	}
	inside.section(plain(line(first.what), l.room.advice))
	inside.section(plain(l.concerned(b), maxSection))
	if advice := line(first.advice); advice != "" {
		inside.section(plain("What to do: "+advice, l.room.advice))
	}
	l.commands(&inside, b)
	inside.context(marked("Seen " + l.when(first.at)))
	return attachment{Color: first.color, Fallback: escape(line(b.title()), maxFallback), Blocks: inside}
}

// concerned lists agencies, with what is of each alone, as far as there is room.
func (l look) concerned(b bundle) string {
	if len(b) == 1 {
		return line(b[0].detail)
	}
	detailed := false
	for _, a := range b {
		detailed = detailed || a.detail != ""
	}
	if !detailed {
		return "Agencies: " + enumerate(b.names(), l.room.items)
	}
	var rows []string
	limit := l.room.items / 4
	for i, a := range b {
		if i == limit {
			rows = append(rows, fmt.Sprintf("… and %d more", len(b)-limit))
			break
		}
		rows = append(rows, fit("• "+line(a.agency)+": "+line(a.detail), l.room.line))
	}
	return strings.Join(rows, "\n")
}

// commands are what to type, ready to be copied. One with a character that could end the code is text like all else.
func (l look) commands(b *blocks, all bundle) {
	var lines []string
	known := map[string]bool{}
	safe := true
	for _, a := range all {
		c := line(a.command)
		if c == "" || known[c] {
			continue
		}
		known[c] = true
		if len(lines) < maxCommands {
			c = fit(c, 200)
			safe = safe && harmless(c)
			lines = append(lines, c)
		}
	}
	if len(lines) == 0 {
		return
	}
	if more := len(known) - len(lines); more > 0 {
		lines = append(lines, fmt.Sprintf("# … and %d more like these", more))
	}
	block := strings.Join(lines, "\n")
	if safe {
		b.section(marked(markup("```\n" + block + "\n```")))
		return
	}
	b.section(plain("Type: "+block, l.room.advice))
}

// harmless says whether a command may stand in mrkdwn, inside code: nothing in it ends the code or is special to Slack.
func harmless(s string) bool {
	for _, r := range s {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', strings.ContainsRune(" -_.:/#\"'=+,%", r):
		default:
			return false
		}
	}
	return true
}
