package listings

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"
)

// MostProbeRequests is how many requests Prober.List and Prober.Learn make together, at most, for one agency: the list
// without a page number, page 1, page 2, without a size and with a larger one; the contact requests of one insertion newest
// first (of a second one if the first has none), then a few oldest first; and one conditional request. What cannot tell
// anything is not asked.
const MostProbeRequests = 8

// sizes that a probe asks for.
const (
	probeSize       = 50  // insertions, as a walk begins
	probeLargerSize = 200 // insertions, to see a cap
	probeWindow     = 20  // contact requests, as a poll begins
	probeOldest     = 5   // contact requests, oldest first; never 1, which some refuse
)

// ProbeOptions say what a watch would ask for.
type ProbeOptions struct {
	PageSize int        // never exceeded; 0: 50, and once more if that tells something
	Filter   url.Values // the API's own filters
}

// Prober learns of the API what its description leaves open, with a handful of requests. What it tells holds names, numbers
// and kinds, never a value from a record. It is for one goroutine.
type Prober struct {
	c    *Client
	o    ProbeOptions
	size int // of a page of insertions, as far as the API takes it
	left int // requests for the agency that is probed

	mu      sync.Mutex
	took    []time.Duration
	failed  int
	proto   string
	skew    time.Duration
	skewed  bool
	refused []int // sizes
}

// NewProber makes a prober of the options of a client. It asks nothing.
func NewProber(o Options, probe ProbeOptions) (*Prober, error) {
	p := &Prober{o: probe, size: cmp.Or(probe.PageSize, probeSize)}
	o = o.withDefaults()
	before, after := o.Before, o.After
	o.Before = func(ctx context.Context, r Request) error {
		if p.left <= 0 {
			return errProbeOver
		}
		p.left--
		return before(ctx, r)
	}
	o.After = func(r Request, outcome Outcome) {
		p.note(outcome)
		after(r, outcome)
	}
	o.Transport = overhearing{o.Transport, p}
	c, err := New(o)
	if err != nil {
		return nil, err
	}
	p.c = c
	return p, nil
}

var errProbeOver = errors.New("enough was asked")

// overhearing is a transport that notes what a client does not tell of answers.
type overhearing struct {
	http.RoundTripper
	p *Prober
}

func (o overhearing) RoundTrip(r *http.Request) (*http.Response, error) {
	sent := time.Now()
	resp, err := o.RoundTripper.RoundTrip(r)
	if err == nil {
		o.p.overhear(resp, sent, time.Now())
	}
	return resp, err
}

func (p *Prober) overhear(resp *http.Response, sent, received time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.proto = resp.Proto
	date := dateOf(resp.Header)
	if date.IsZero() {
		return
	}
	// The header is cut to whole seconds: the middle of its second against the middle of the exchange.
	skew := date.Add(500 * time.Millisecond).Sub(sent.Add(received.Sub(sent) / 2)).Round(time.Second)
	if !p.skewed || skew.Abs() < p.skew.Abs() {
		p.skew, p.skewed = skew, true
	}
}

func (p *Prober) note(o Outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.took = append(p.took, o.Duration)
	if o.Err != nil {
		p.failed++
	}
}

// Answers is what all answers together tell.
type Answers struct {
	Requests     int    `json:"requests"` // that were sent
	Failed       int    `json:"failed"`   // without a good answer
	MinMillis    int64  `json:"minMillis"`
	MedianMillis int64  `json:"medianMillis"`
	MaxMillis    int64  `json:"maxMillis"`
	Protocol     string `json:"protocol,omitempty"` // HTTP/1.1 or HTTP/2.0; empty: nobody answered
	ClockTold    bool   `json:"clockTold"`
	SkewSeconds  int64  `json:"skewSeconds"` // the API's clock minus ours
}

// Answers sums up the requests so far.
func (p *Prober) Answers() Answers {
	p.mu.Lock()
	defer p.mu.Unlock()
	a := Answers{
		Requests: len(p.took), Failed: p.failed, Protocol: p.proto, ClockTold: p.skewed, SkewSeconds: int64(p.skew / time.Second),
	}
	if len(p.took) > 0 {
		took := slices.Sorted(slices.Values(p.took))
		a.MinMillis, a.MedianMillis, a.MaxMillis = took[0].Milliseconds(), took[len(took)/2].Milliseconds(), took[len(took)-1].Milliseconds()
	}
	return a
}

// Listed is the first answer of an agency's list.
type Listed struct {
	AgencyID string
	Err      error // nil: access
	Records  int
	Total    int // -1: not told
	Size     int // that was asked for; 0: none

	key  Key
	page *InsertionsPage
	left int
}

// More says whether the list surely holds more than the answer.
func (l *Listed) More() bool { return l.Total > l.Records }

// MayHoldMore says whether it may hold more than the answer. A page that is not full says nothing: services cap.
func (l *Listed) MayHoldMore() bool {
	few := surelyOnePage
	if l.Size > 0 {
		few = min(few, l.Size)
	}
	return l.More() || l.Total < 0 && l.Records >= few
}

// List asks once for an agency's insertions, without a page number, as a walk begins. A size that the API refuses is
// followed by a smaller one, then by none; later calls begin with what was taken.
func (p *Prober) List(ctx context.Context, key Key, agency string) *Listed {
	p.left = MostProbeRequests
	l := &Listed{AgencyID: agency, Total: -1, key: key}
	for _, size := range p.sizes() {
		l.Size = size
		l.page, l.Err = p.insertions(ctx, l, size, 0)
		if !isRefusedSize(l.Err) {
			break
		}
		p.refuse(size)
	}
	if l.Err == nil {
		l.Records, l.Total = len(l.page.Insertions), l.page.Total
		p.size = l.Size
	}
	l.left = p.left
	return l
}

func (p *Prober) sizes() []int {
	if p.size == 0 {
		return []int{0}
	}
	return sizes(p.size)
}

func (p *Prober) refuse(size int) {
	if size > 0 && !slices.Contains(p.refused, size) {
		p.refused = append(p.refused, size)
	}
}

func (p *Prober) insertions(ctx context.Context, l *Listed, size, page int) (*InsertionsPage, error) {
	return p.c.Insertions(ctx, l.key, l.AgencyID, InsertionsQuery{PageSize: size, Page: page, Other: p.o.Filter})
}
