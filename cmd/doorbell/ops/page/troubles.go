package page

import (
	"fmt"
	"hash/fnv"
	"time"

	"doorbell/cmd/doorbell/ops"
	"doorbell/poller"
)

// trouble is one of ops, or several that are alike, fit to stand in the page.
type trouble struct {
	Key   string // the same at every rendering
	Tone  tone
	Shape string
	Title string
	Text  string
	Error string // what was said last
	Since moment
	Do    *action
	Items []trouble // of several that are told as one: the single ones
	More  int       // that are not even listed

	kind   string
	agency string
}

// action is how a person ends it.
type action struct {
	Verb              string // of a form; empty: there is only a command
	Agency, Insertion string
	Button            string
	Who               string // what the button is about, for those who do not see where it stands
	Confirm           string // asked first
	Command           string
}

// Many of a kind become one: a key that 200 agencies share is one trouble.
const (
	mostAlike  = 1
	mostListed = 250
)

// troubles are those of a status, the worst first.
func troubles(s ops.Status) (list []trouble) {
	for _, group := range ops.Grouped(s.Troubles(), mostAlike) {
		t := newTrouble(group[0], s.Watch.At)
		if len(group) == 1 {
			list = append(list, t)
			continue
		}
		all := trouble{Key: key("group", group[0].Alike), kind: t.kind, Tone: t.Tone, Shape: t.Shape, Title: plain(ops.TitleOf(group), 200), Text: t.Text, Error: t.Error}
		switch {
		case t.Do == nil:
		case t.Do.Verb == "":
			all.Do = &action{Command: plain(ops.CommandOf(group), 400)}
		case t.Do.Verb == "resume":
			all.Do = &action{Verb: "resume", Agency: poller.AllAgencies, Button: "Resume all", Command: plain(ops.CommandOf(group), 400)}
		}
		for n, one := range group {
			item := newTrouble(one, s.Watch.At)
			item.Title = plain(one.Label, 160)
			if item.Do != nil && item.Do.Verb == "" {
				item.Do = nil
			}
			if item.Since.Known() && (!all.Since.Known() || item.Since.ISO < all.Since.ISO) {
				all.Since = item.Since
			}
			if n < mostListed {
				all.Items = append(all.Items, item)
			} else {
				all.More++
			}
		}
		list = append(list, all)
	}
	return list
}

// shapes of kinds that have another than a triangle.
var shapes = map[string]string{"halted": "square", "insertion": "square", "full": "square", "contested": "square", "held": "diamond", "waiting": "ring"}

func newTrouble(o ops.Trouble, now time.Time) trouble {
	t := trouble{
		Key: key(o.Key), Tone: warn, Shape: "triangle", kind: o.Kind, agency: plain(o.Agency, 64), Since: at(o.Since, now),
		Title: plain(o.Title, 180), Text: plain(o.Text, 600), Error: plain(o.Error, 300),
	}
	if o.Bad {
		t.Tone = bad
	}
	if shape := shapes[o.Kind]; shape != "" {
		t.Shape = shape
	}
	if d := o.Do; d.Command != "" {
		t.Do = &action{Verb: d.Verb, Agency: o.Agency, Insertion: d.Reference, Who: plain(o.Label, 160), Confirm: plain(d.Confirm, 200), Command: plain(d.Command, 400)}
		t.Do.Button = map[string]string{"resume": "Resume", "approve": "Approve it…"}[d.Verb]
	}
	return t
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
