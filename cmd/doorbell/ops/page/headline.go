package page

import (
	"strings"
	"time"

	"doorbell/cmd/doorbell/ops"
)

// headline is the state of everything, in the window's title, in words, and by a shape.
type headline struct {
	Tone  tone
	Shape string
	Text  string
	Sub   string
	title string // of the window, without the name
	Name  string // doorbell, and the instance if it has a name
}

// mark stands in the window's title, where there are no shapes.
var mark = map[string]string{"square": "■", "triangle": "▲", "diamond": "◆", "ring": "◌", "disc": ""}

func (h headline) Title() string {
	if h.title == "" {
		return h.Name
	}
	return strings.TrimSpace(mark[h.Shape]+" "+h.title) + " – " + h.Name
}

// newHeadline takes the state of everything.
func newHeadline(s ops.Status) headline {
	now := ops.NewHeadline(s)
	return headline{
		Tone: tone(now.Level), Shape: shapes[now.Level], Text: ops.Short(now.Text, 400), Sub: now.Sub,
		title: ops.Short(now.Title, 100), Name: strings.TrimSpace("doorbell " + ops.Short(s.Instance, 40)),
	}
}

// uptime is how long the daemon has run.
func uptime(s ops.Status) string {
	if s.Started.IsZero() {
		return ""
	}
	return "up " + ops.Span(s.Watch.At.Sub(s.Started).Round(time.Second))
}
