package ops

import (
	"fmt"

	"doorbell/poller"
)

// Headline sums up the state of everything. The page and `doorbell status` begin with it.
type Headline struct {
	Text  string // "2 agencies are halted: the API refuses the key; NATS does not take events"
	Title string // the same, shorter, for the title of a window
	Sub   string // what it means; may be empty
	Busy  bool   // there is nothing to do except wait
}

const allIsWell = "All is well"

// Summary returns the text of the headline, empty if all is well. If it is not empty, `status
// --check` exits with 1 and the ping is held back.
func (s Status) Summary() string {
	if h := NewHeadline(s); h.Text != allIsWell {
		return h.Text
	}
	return ""
}

// NewHeadline names the most pressing problems, if there are any.
func NewHeadline(s Status) Headline {
	if s.waits() {
		return Headline{Text: allIsWell, Title: "waiting", Sub: s.Standby.text(), Busy: true}
	}
	if list := s.Problems(); len(list) > 0 {
		return Headline{Text: summary(list), Title: list[0].Title}
	}
	agencies, insertions := len(s.Watch.Agencies), 0
	for _, a := range s.Watch.Agencies {
		insertions += a.Insertions
	}
	h := Headline{Text: allIsWell, Title: Counted(agencies, "agency")}
	switch fresh := Learning(s.Watch.Agencies); {
	case agencies == 0:
		return Headline{
			Busy: true, Text: "No agency is watched", Title: "no agency",
			Sub: "Name one in DOORBELL_AGENCIES, or with its key in DOORBELL_API_KEYS.",
		}
	case fresh == agencies:
		return Headline{
			Busy: true, Text: "Starting to watch " + Counted(agencies, "agency"), Title: "starting",
			Sub: "What already exists is learned, not announced. Anything new after that is announced.",
		}
	case fresh > 0:
		h.Sub = fmt.Sprintf("Starting to watch %s more.", Number(fresh))
	default:
		h.Sub = fmt.Sprintf("Watching %s of %s.", Counted(insertions, "insertion"), Counted(agencies, "agency"))
	}
	return h
}

// Learning counts the agencies whose watch has not begun to announce.
func Learning(list []poller.AgencyStatus) (n int) {
	for _, a := range list {
		if a.State == "starting" || a.State == "baselining" || a.State == WaitingForStream {
			n++
		}
	}
	return n
}
