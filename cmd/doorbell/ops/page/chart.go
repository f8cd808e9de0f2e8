package page

import (
	"fmt"
	"strings"
	"time"

	"doorbell/cmd/doorbell/ops"
)

const chartHours = 24

// chart is the last 24 hours, of all agencies.
type chart struct {
	Leads panel
	Hours []hourRow // the newest last

	agencies map[string]*[chartHours]int // leads
}

// panel is one row of bars; they stand on a ground of 240 by 100.
type panel struct {
	Total, Most int
	Last        int // of the hour that runs
	Bars        []bar
	Description string
}

type bar struct {
	X, Y, Height string
	Title        string
	Running      bool
}

// hourRow is an hour for those who read the figures.
type hourRow struct {
	At    moment
	Leads string

	leads int
}

func newChart(s ops.Status) chart {
	now := s.Watch.At.UTC()
	first := now.Truncate(time.Hour).Add(-(chartHours - 1) * time.Hour)
	c := chart{agencies: map[string]*[chartHours]int{}}
	var leads [chartHours]int
	for _, a := range s.Hours {
		own := &[chartHours]int{}
		c.agencies[a.AgencyID] = own
		for _, h := range a.Hours {
			n := int(h.At.Sub(first) / time.Hour)
			if h.At.Before(first) || n >= chartHours {
				continue
			}
			own[n] += h.Leads
			leads[n] += h.Leads
		}
	}
	hours := make([]moment, chartHours)
	for n := range hours {
		t := first.Add(time.Duration(n) * time.Hour)
		hours[n] = moment{ISO: t.Format(time.RFC3339), Text: t.Format("15:04"), Full: t.Format("2006-01-02 15:04") + " UTC", Form: "minute"}
		c.Hours = append(c.Hours, hourRow{hours[n], ops.Number(leads[n]), leads[n]})
	}
	c.Leads = newPanel(leads, hours)
	return c
}

func newPanel(counts [chartHours]int, hours []moment) panel {
	p := panel{Last: counts[chartHours-1]}
	best := 0
	for n, c := range counts {
		p.Total += c
		if c > counts[best] {
			best = n
		}
	}
	p.Most = counts[best]
	for n, c := range counts {
		if c == 0 {
			continue
		}
		height := max(2.5, 100*float64(c)/float64(p.Most))
		p.Bars = append(p.Bars, bar{
			X: fmt.Sprint(10*n + 1), Y: fmt.Sprintf("%.4g", 100-height), Height: fmt.Sprintf("%.4g", height), Running: n == chartHours-1,
			Title: hours[n].Text + " UTC: " + ops.Counted(c, "lead"),
		})
	}
	p.Description = "None in the last 24 hours."
	if p.Total > 0 {
		p.Description = fmt.Sprintf("%s in the last 24 hours, most in the hour from %s UTC: %s.", ops.Counted(p.Total, "lead"), hours[best].Text, ops.Number(p.Most))
	}
	return p
}

// agency returns the leads of an agency, and them as bars on a ground of 72 by 16.
func (c chart) agency(id string) (total int, path string) {
	counts := c.agencies[id]
	if counts == nil {
		return 0, ""
	}
	most := 0
	for _, n := range counts {
		total += n
		most = max(most, n)
	}
	var b strings.Builder
	for n, leads := range counts {
		if leads > 0 {
			height := max(2, 16*leads/most)
			fmt.Fprintf(&b, "M%d 16v-%dh2v%dz", 3*n, height, height)
		}
	}
	return total, b.String()
}

// MostText is the number of the fullest hour.
func (p panel) MostText() string { return ops.Number(p.Most) }
