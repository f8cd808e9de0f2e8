package slack

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"doorbell/events"
	"doorbell/events/forward"
)

// look is how messages look: the same delivery always looks the same.
type look struct {
	full bool // people are shown whole
	zone *time.Location
	room room
}

// room is how much of the texts in a message is shown, in UTF-16 units, and of lists, in items.
type room struct {
	message int // what a person wrote
	line    int // a title, a name
	advice  int
	items   int // agencies of an alert
	changes int
}

// rooms are tried from the widest on, until the message is not too large as a whole.
var rooms = []room{
	{message: 1_500, line: 200, advice: 1_000, items: 60, changes: 8},
	{message: 1_000, line: 120, advice: 600, items: 30, changes: 5},
	{message: 500, line: 60, advice: 300, items: 15, changes: 3},
	{message: 250, line: 30, advice: 150, items: 8, changes: 2},
}

// render makes the body that is posted. The error is a *[forward.Never].
func (l look) render(d forward.Delivery) ([]byte, error) {
	if len(d.Events) == 0 {
		return nil, &forward.Never{Reason: "there is no event to tell of"}
	}
	for _, l.room = range rooms {
		m, err := l.draw(d)
		if err != nil {
			return nil, err
		}
		if body := encodeJSON(m); len(body) <= maxWhole {
			return body, nil
		}
	}
	// No delivery within the traits gets here.
	note := fmt.Sprintf("🔔 %s, too large to be shown here; see: doorbell events ls", count(len(d.Events), "event"))
	b := blocks{header(mark(d, note))}
	return encodeJSON(message{Text: mark(d, note), Blocks: b}), nil
}

func encodeJSON(m message) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(m) // strings and lists of them cannot fail
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

func (l look) draw(d forward.Delivery) (message, error) {
	if alerts(d.Events) {
		return l.alerts(d)
	}
	if len(d.Events) > 1 {
		return l.list(d), nil
	}
	p, err := d.Events[0].Payload()
	if err != nil {
		return message{}, &forward.Never{Reason: "this version cannot read the event"}
	}
	return l.card(d, p)
}

func alerts(list []events.Event) bool {
	for _, e := range list {
		if !forward.IsAlert(e.Type) {
			return false
		}
	}
	return true
}

// card is the message for one event that is no alert.
func (l look) card(d forward.Delivery, p events.Payload) (message, error) {
	var c card
	switch p := p.(type) {
	case *events.ContactRequestCreated:
		c = l.created(p)
	case *events.ContactRequestChanged:
		c = l.changed(p)
	case *events.ContactRequestRedacted:
		c = l.redacted(p)
	default:
		var ok bool
		if c, ok = l.insertion(p); !ok {
			return message{}, &forward.Never{Reason: fmt.Sprintf("this version cannot show %s", d.Events[0].Type)}
		}
	}
	title := mark(d, c.title)
	b := blocks{header(title)}
	b = append(b, c.body...)
	if c.links != "" {
		b.section(marked(c.links))
	}
	b.context(append(c.small, provenance(d)...)...)
	fallback := title
	if c.gist != "" {
		fallback += ": " + c.gist
	}
	return message{Text: escape(line(fallback), maxFallback), Blocks: b}, nil
}

// card is what differs between the events that get one.
type card struct {
	title string // with an emoji in front; what is foreign in it may be any text
	gist  string // the rest of the notification
	body  blocks
	links markup
	small []*text
}

// mark puts in front of a title that nobody need act on it.
func mark(d forward.Delivery, title string) string {
	if d.Test {
		return "🧪 TEST " + title
	}
	if replayed(d) {
		return "🔁 AGAIN " + title
	}
	return title
}

func replayed(d forward.Delivery) bool { return d.Events[0].Origin == events.OriginReplay }

// provenance says in the small print why a message is not news.
func provenance(d forward.Delivery) []*text {
	switch {
	case d.Test:
		return []*text{marked("*A test*: people, places and numbers are made up. Whoever reads this will also get the real ones.")}
	case replayed(d):
		return []*text{marked("*Sent again* because somebody asked for it (replay)")}
	case d.Events[0].Origin == events.OriginBaseline:
		return []*text{marked("*No news*: it was there before the watch began")}
	}
	return nil
}
