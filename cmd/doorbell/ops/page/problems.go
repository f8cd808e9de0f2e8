package page

import (
	"fmt"
	"hash/fnv"
	"time"

	"doorbell/cmd/doorbell/ops"
)

// problem is one of ops, fit to stand in the page.
type problem struct {
	Key   string // the same at every rendering
	Tone  tone
	Shape string
	Title string
	Text  string
	Error string // the last one
	Since moment
	Run   string    // the command that ends it
	Items []problem // of several that are one: the single ones
	More  int       // that are not even listed
}

// mostListed bounds the single ones of a problem: a key may be that of any number of agencies.
const mostListed = 250

// problems are those of a status, the worst first.
func problems(s ops.Status) (list []problem) {
	for _, p := range s.Problems() {
		all := newProblem(p, s.Watch.At)
		for _, one := range p.Of[:min(len(p.Of), mostListed)] {
			item := newProblem(one, s.Watch.At)
			item.Title = ops.Short(one.Label, 160)
			if one.Command == p.Command {
				item.Run = ""
			}
			all.Items = append(all.Items, item)
		}
		all.More = len(p.Of) - len(all.Items)
		list = append(list, all)
	}
	return list
}

func newProblem(p ops.Problem, now time.Time) problem {
	level := ops.Warn
	if p.Bad {
		level = ops.Bad
	}
	return problem{
		Key: key(p.Title, p.Label), Tone: tone(level), Shape: shapes[level], Since: at(p.Since, now),
		Title: ops.Short(p.Title, 200), Text: ops.Short(p.Text, 600), Error: ops.Short(p.Error, 300), Run: ops.Short(p.Command, 400),
	}
}

// key names a thing, so that the script knows it again.
func key(parts ...string) string {
	h := fnv.New64a()
	for _, p := range parts {
		h.Write([]byte(p)) //nolint:errcheck // never fails
		h.Write([]byte{0}) //nolint:errcheck // never fails
	}
	return fmt.Sprintf("t-%x", h.Sum64())
}
