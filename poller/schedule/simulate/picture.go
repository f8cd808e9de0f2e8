package main

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"time"

	"doorbell/poller/schedule/trace"
)

// The picture, in pixels.
const (
	width, height             = 900, 520
	left, right, upper, lower = 70, 30, 70, 70
	from, to                  = time.Second, 24 * time.Hour
)

var marks = []struct {
	at   time.Duration
	name string
}{
	{time.Second, "1 s"},
	{10 * time.Second, "10 s"},
	{time.Minute, "1 min"},
	{5 * time.Minute, "5 min"},
	{15 * time.Minute, "15 min"},
	{time.Hour, "1 h"},
	{4 * time.Hour, "4 h"},
	{24 * time.Hour, "24 h"},
}

// colours can be told apart by those who see fewer of them, too.
var colours = map[trace.Policy]string{
	trace.Real: "#d55e00", trace.Turns: "#0072b2", trace.Proportional: "#999999", trace.Oracle: "#009e73", trace.CappedOracle: "#cc79a7",
}

func x(at time.Duration) float64 {
	part := math.Log(float64(max(at, from))/float64(from)) / math.Log(float64(to)/float64(from))
	return left + min(part, 1)*(width-left-right)
}

func y(part float64) float64 { return height - lower - part*(height-upper-lower) }

// picture draws what part of the contact requests was found within a time, over the logarithm of the time.
func picture(m *measured) []byte {
	b := &bytes.Buffer{}
	fmt.Fprintf(b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="14">`+"\n", width, height)
	fmt.Fprintf(b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", width, height)
	fmt.Fprintf(b, `<text x="%d" y="28" font-size="18">Contact requests found within a time</text>`+"\n", left)
	fmt.Fprintf(b, `<text x="%d" y="50" fill="#555">%s, %s</text>`+"\n", left, html.EscapeString(m.about), count(len(m.columns[0].seeds), "seed"))
	grid(b)
	for _, c := range m.columns {
		curve(b, c)
	}
	legend(b, m)
	b.WriteString("</svg>\n")
	return b.Bytes()
}

func grid(b *bytes.Buffer) {
	for part := 0; part <= 100; part += 25 {
		at := y(float64(part) / 100)
		fmt.Fprintf(b, `<path d="M%d %.1fH%d" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end">%d %%</text>`+"\n", left, at, width-right, left-8, at+5, part)
	}
	for _, m := range marks {
		dash := `stroke="#ddd"`
		if m.at == 5*time.Minute {
			dash = `stroke="#333" stroke-dasharray="4 4"`
		}
		fmt.Fprintf(b, `<path d="M%.1f %dV%d" %s/><text x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", x(m.at), upper, height-lower, dash, x(m.at), height-lower+20, m.name)
	}
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="middle" fill="#555">from its creation to the poll that found it</text>`+"\n", (left+width-right)/2, height-18)
}

func curve(b *bytes.Buffer, c *column) {
	fmt.Fprintf(b, `<path fill="none" stroke="%s" stroke-width="%s" d="`, colours[c.policy], stroke(c.policy))
	command := 'M'
	for at := from; at <= to; at = at * 26 / 25 {
		fmt.Fprintf(b, "%c%.1f %.1f", command, x(at), y(c.all.Until(at)))
		command = 'L'
	}
	b.WriteString("\"/>\n")
}

func stroke(p trace.Policy) string {
	if p == trace.Real {
		return "3.5"
	}
	return "2"
}

func legend(b *bytes.Buffer, m *measured) {
	for k, c := range m.columns {
		at := upper + 18 + 22*k
		fmt.Fprintf(b, `<path d="M%d %dh28" stroke="%s" stroke-width="%s"/><text x="%d" y="%d">%s: mean %s, %.0f %% within 5 min</text>`+"\n",
			left+12, at, colours[c.policy], stroke(c.policy), left+48, at+5, html.EscapeString(c.name), short(c.all.Mean()), 100*c.all.Within())
	}
}
