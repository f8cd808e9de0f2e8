package trace

import (
	"math"
	"time"
)

// Figures are what a run showed between the end of its warm-up and its end.
type Figures struct {
	Policy   Policy
	Leads    int           // contact requests that were created
	Missed   int           // of them never found
	Within5  int           // found within five minutes
	Sum      time.Duration // of their latencies
	Requests int           // of all kinds
	Walks    int           // for pages of lists
	Urgents  int           // for insertions that were urgent
	Forced   int           // pages that were read because the policy asked for none
	Span     time.Duration
	Oldest   time.Duration // the longest that an insertion waited, from the first moment on
	Cap      time.Duration // and might have waited
	Tightest time.Duration // the shortest time in which one more was sent than the budget allows for a second
	Early    int           // polls that came before the interval had passed, though nothing was urgent
	Spent    time.Duration // by the computer

	Agencies []Share
	bins     [perDouble * 30]int32
}

// Share is what one agency got.
type Share struct {
	Requests, Leads int
	Sum             time.Duration
}

// Mean is the mean latency of an agency.
func (s Share) Mean() time.Duration { return s.Sum / time.Duration(max(s.Leads, 1)) }

// A bin of the distribution is a fraction of an octave.
const (
	perDouble = 32
	leastBin  = 10 * time.Millisecond
)

func (f *Figures) found(agency int, latency time.Duration) {
	f.Leads++
	f.Sum += latency
	f.Agencies[agency].Leads++
	f.Agencies[agency].Sum += latency
	if latency <= 5*time.Minute {
		f.Within5++
	}
	bin := 0
	if latency > leastBin {
		bin = int(perDouble * math.Log2(float64(latency)/float64(leastBin)))
	}
	f.bins[min(bin, len(f.bins)-1)]++
}

// Mean is the mean latency.
func (f *Figures) Mean() time.Duration {
	return f.Sum / time.Duration(max(f.Leads, 1))
}

// Within is the part that was found within five minutes.
func (f *Figures) Within() float64 { return float64(f.Within5) / float64(max(f.Leads, 1)) }

// Quantile is the latency that a part of the contact requests did not exceed.
func (f *Figures) Quantile(part float64) time.Duration {
	left := part * float64(f.Leads)
	for b, n := range f.bins {
		if left -= float64(n); left <= 0 && n > 0 {
			return binEnd(b)
		}
	}
	return binEnd(len(f.bins))
}

func binEnd(b int) time.Duration {
	return time.Duration(float64(leastBin) * math.Exp2(float64(b+1)/perDouble))
}

// PerSecond is the number of requests a second.
func (f *Figures) PerSecond() float64 { return float64(f.Requests) / f.Span.Seconds() }

// Kept says whether what is promised was kept: no insertion older than the cap, never more than the budget.
func (f *Figures) Kept() bool {
	return f.Tightest >= time.Second && f.Early == 0 && f.Missed == 0 && (f.Cap == 0 || f.Oldest <= f.Cap)
}

// Merge adds the figures of another seed.
func (f *Figures) Merge(o *Figures) {
	f.Leads += o.Leads
	f.Missed += o.Missed
	f.Within5 += o.Within5
	f.Sum += o.Sum
	f.Requests += o.Requests
	f.Walks += o.Walks
	f.Urgents += o.Urgents
	f.Forced += o.Forced
	f.Span += o.Span
	f.Early += o.Early
	f.Oldest = max(f.Oldest, o.Oldest)
	f.Tightest = min(f.Tightest, o.Tightest)
	for k := range f.Agencies {
		f.Agencies[k].Requests += o.Agencies[k].Requests
		f.Agencies[k].Leads += o.Agencies[k].Leads
		f.Agencies[k].Sum += o.Agencies[k].Sum
	}
	for b := range f.bins {
		f.bins[b] += o.bins[b]
	}
}
