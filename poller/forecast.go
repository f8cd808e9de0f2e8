package poller

import (
	"math"
	"time"

	"doorbell/poller/listings"
	"doorbell/poller/schedule"
	"doorbell/store"
)

// Outlook is what a forecast must know of a watch. It holds no person's data and no key.
type Outlook struct {
	RequestsPerSecond float64         `json:"requestsPerSecond"` // the ceiling
	PollInterval      time.Duration   `json:"pollInterval"`      // nanoseconds, as all durations here
	MaxStaleness      time.Duration   `json:"maxStaleness"`      // 0: auto
	WalkInterval      time.Duration   `json:"walkInterval"`
	PageSize          int             `json:"pageSize"` // as configured; 0: auto
	Answer            time.Duration   `json:"answer"`   // that polls take, as measured; 0: not known
	Agencies          []AgencyOutlook `json:"agencies"`
}

// AgencyOutlook is what a forecast must know of an agency.
type AgencyOutlook struct {
	AgencyID        string               `json:"agencyId"`
	Rates           []schedule.RateCount `json:"rates"`           // of its insertions that are polled
	ContactRequests float64              `json:"contactRequests"` // from which the rates were learned
	Pages           int                  `json:"pages"`           // requests of the last walk; 0: not known
	PageSize        int                  `json:"pageSize"`        // that a page was found to hold with auto; 0: not known
}

// Outlook is how the watch stands now. It may be called at any time.
func (p *Poller) Outlook() Outlook {
	o := p.o.outlook()
	o.Answer = time.Duration(p.answer.Load())
	for _, a := range p.watched() {
		one := AgencyOutlook{AgencyID: a.id}
		one.Rates, one.ContactRequests = p.scheduler.rates(a.id)
		one.PageSize = a.published().state.Operation(string(listings.OperationInsertions)).Largest
		a.mu.Lock()
		one.Pages = a.lastWalk.Pages
		a.mu.Unlock()
		o.Agencies = append(o.Agencies, one)
	}
	return o
}

func (o Options) outlook() Outlook {
	all := Outlook{
		RequestsPerSecond: o.RequestsPerSecond, PollInterval: o.PollInterval, MaxStaleness: o.MaxStaleness,
		WalkInterval: o.WalkInterval, PageSize: o.PageSize, Agencies: []AgencyOutlook{},
	}
	if o.largerPages {
		all.PageSize = 0
	}
	return all
}

// Plan is what may be expected of the watch as one plan for all agencies, and how many requests one walk of each takes.
func (o Outlook) Plan() (p schedule.Plan, requests int) {
	p = schedule.Plan{
		Budget: o.RequestsPerSecond, Interval: o.PollInterval, Staleness: o.MaxStaleness, Answer: max(o.Answer, 0), AtOnce: mostPolls,
	}
	place := map[float64]int{} // many agencies have the same rates
	slowest := max(o.WalkInterval.Seconds(), 1e-3)
	for _, a := range o.Agencies {
		for _, group := range a.Rates {
			n, known := place[group.PerDay]
			if !known {
				n = len(p.Rates)
				place[group.PerDay] = n
				p.Rates = append(p.Rates, schedule.RateCount{PerDay: group.PerDay})
			}
			p.Rates[n].Count += max(group.Count, 0)
		}
		n := a.WalkRequests(o.PageSize)
		requests += n
		p.Walks += float64(n) / max(slowest, float64(n)*p.Answer.Seconds()) // a walk asks for one page after the other
	}
	return p, requests
}

// DefaultPage is what walks ask for where no page size is configured and no larger one is known.
const DefaultPage = 50

// WalkRequests is how many requests a walk takes: as many as the last one, or, unknown, one for each page, one more for the
// first, and an empty one at the end. size is that of a page, as configured; 0: auto.
func (a AgencyOutlook) WalkRequests(size int) int {
	if a.Pages > 0 {
		return a.Pages
	}
	if size <= 0 {
		size = max(a.PageSize, DefaultPage)
	}
	insertions := 0.0
	for _, group := range a.Rates {
		insertions += max(group.Count, 0)
	}
	return int(math.Ceil(min(insertions, MostPlanned)/float64(size)-1e-6)) + 2
}

// MostPlanned bounds what is believed of a number of insertions.
const MostPlanned = 10_000_000

// rates are how the rates of an agency's insertions lie, and from how many contact requests that was learned.
func (t *scheduler) rates(agencyID string) (rates []schedule.RateCount, learned float64) {
	t.view(agencyID, func(s *schedule.Schedule, p *scheduled) { rates, learned = s.Rates(p.handle) })
	return rates, learned
}

// RememberedOutlook is how a watch with these options would stand at its start, by what a stopped daemon remembers. Its
// store may be open for reading only.
func RememberedOutlook(s *store.Store, o Options) (Outlook, error) {
	o = o.withDefaults()
	all := o.outlook()
	ids, err := s.Agencies()
	if err != nil {
		return all, err
	}
	err = s.View(func(tx *store.Tx) error {
		for _, id := range ids {
			all.Agencies = append(all.Agencies, rememberedRates(tx, id, o))
		}
		return nil
	})
	return all, err
}

// rememberedRates are those of a schedule that goes on with what the process before has learned.
func rememberedRates(tx *store.Tx, agencyID string, o Options) AgencyOutlook {
	known, now := loadMemory(tx, agencyID), time.Now()
	s := schedule.New(schedule.Options{Budget: o.RequestsPerSecond, Interval: o.PollInterval, Staleness: o.MaxStaleness})
	handle := s.Enter(known.learned)
	for i := range tx.Insertions(agencyID) {
		if stillPolled(i, now) {
			s.Add(handle, known.resume(resumedFrom(i), now, now), now)
		}
	}
	state, _ := tx.Agency(agencyID)
	a := AgencyOutlook{AgencyID: agencyID, PageSize: state.Operation(string(listings.OperationInsertions)).Largest}
	a.Rates, a.ContactRequests = s.Rates(handle)
	return a
}
