package sandbox

import (
	"context"
	"math"
	"math/rand/v2"
	"time"
)

// AgencyProfile is an agency of a [Market].
type AgencyProfile struct {
	ID         string
	Insertions int     // about so many at any time; zero: drawn
	Rent       float64 // share of rentals; zero: 0.8, as a managing agency has; a broker has 0.3
}

// MarketOptions say what a [Market] is made of.
type MarketOptions struct {
	// Seed decides everything that happens; with the same seed, options and clock
	// two models come out equal.
	Seed uint64
	// Agencies. Default A100 with 60 rentals and sales, B200 with 8.
	Agencies []AgencyProfile
	// Begin is the market's own time at the start, which decides hours and
	// weekdays. Default: the model's.
	Begin time.Time
	// Speed is how much faster the market's own time runs than the model's clock;
	// records are dated by the latter. Default 1.
	Speed float64
	// Numbers that it lives by. Default [Believable].
	Numbers *Numbers
}

// Market fills a model with believable insertions and contact requests and keeps
// them moving in the rhythm of a real market: stock and churn, the decay of
// interest and its hours, untidy records, people who write twice. It may work
// beside other changes to the same model. It is not safe for concurrent use
// itself.
type Market struct {
	model    *Model
	numbers  Numbers
	agencies []*marketAgency
	random   *rand.Rand
	table    *timetable
	number   int // of the last reference
	hot      int // rentals that were made hot
}

type marketAgency struct {
	profile AgencyProfile
	people  []correspondent // who wrote lately
	stock   []*offer        // what is listed
}

// offer is an insertion in the eyes of the market.
type offer struct {
	agency    *marketAgency
	reference string
	region    region
	requests  []string // ids
	listed    bool
}

// NewMarket returns a market in which nothing has happened yet.
func NewMarket(m *Model, o MarketOptions) *Market {
	k := &Market{model: m, random: rand.New(rand.NewPCG(o.Seed, 2)), numbers: Believable()}
	if o.Numbers != nil {
		k.numbers = *o.Numbers
	}
	if len(o.Agencies) == 0 {
		o.Agencies = []AgencyProfile{{ID: "A100", Insertions: 60}, {ID: "B200", Insertions: 8}}
	}
	for _, p := range o.Agencies {
		if p.Insertions == 0 {
			p.Insertions = max(1, min(int(k.numbers.AgencySize.draw(k.random)), k.numbers.LargestAgency))
		}
		if p.Rent == 0 {
			p.Rent = 0.8
		}
		k.agencies = append(k.agencies, &marketAgency{profile: p})
	}
	k.table = newTimetable(m, o.Begin, o.Speed)
	return k
}

// Seed makes the agencies and their insertions as they are met on any day: of all
// ages, with the contact requests they have had. Keys are the caller's to add.
func (k *Market) Seed() {
	for _, a := range k.agencies {
		k.model.AddAgency(a.profile.ID)
		for range a.profile.Insertions {
			k.offer(a, likely(k.random, a.profile.Rent), true)
		}
		k.expect(a, true)
		k.expect(a, false)
	}
	night := k.table.begin.In(Zurich)
	night = time.Date(night.Year(), night.Month(), night.Day()+1, 3, 30, 0, 0, Zurich)
	k.table.every(night, day, k.overnight)
}

// Run lets the market live until the context ends.
func (k *Market) Run(ctx context.Context) { k.table.run(ctx) }

// Next says when, by the model's clock, the next thing happens.
func (k *Market) Next() (time.Time, bool) { return k.table.next() }

// Step does the next thing at once, whatever the clock says. It returns false if
// nothing will ever happen.
func (k *Market) Step() bool { return k.table.step() }

// expect plans the next new rental or sale, such that the stock stays what it is.
func (k *Market) expect(a *marketAgency, rent bool) {
	stock, life := float64(a.profile.Insertions)*a.profile.Rent, k.numbers.RentDays.Mean()
	if !rent {
		stock, life = float64(a.profile.Insertions)-stock, k.numbers.SaleDays.Mean()
	}
	if stock <= 0 {
		return
	}
	k.table.at(k.table.now().Add(days(k.random.ExpFloat64()*life/stock)), func() {
		k.offer(a, rent, false)
		k.expect(a, rent)
	})
}

// offer publishes something new, or something that is met in the middle of its
// life, and plans all that will happen to it.
func (k *Market) offer(a *marketAgency, rent, old bool) {
	lives := k.numbers.SaleDays
	if rent {
		lives = k.numbers.RentDays
	}
	life, age := days(lives.draw(k.random)), time.Duration(0)
	if old {
		life = days(lives.aged(k.random))
		age = time.Duration(k.random.Float64() * float64(life))
	}
	k.number++
	record, where := k.record(rent)
	record.CreatedAt = k.model.now().Add(-age)
	if k.model.Publish(a.profile.ID, record) != nil {
		return // the agency was not made by Seed
	}
	o := &offer{agency: a, reference: record.Reference, region: where, listed: true}
	a.stock = append(a.stock, o)
	born := k.table.now().Add(-age)
	k.planRequests(o, rent, born, life)
	k.planPrice(o, born, life)
	k.table.at(born.Add(life), func() { k.withdraw(o, rent) })
}

func (k *Market) withdraw(o *offer, rent bool) {
	record, ok := k.model.listedRecord(o.agency.profile.ID, o.reference)
	if !ok || k.model.Withdraw(o.agency.profile.ID, o.reference) != nil {
		return // another was quicker
	}
	o.listed = false
	o.agency.stock = deleteOffer(o.agency.stock, o)
	if !likely(k.random, k.numbers.Relisted) {
		return
	}
	k.table.at(k.table.now().Add(between(k.random, k.numbers.RelistedMin, k.numbers.RelistedMax)), func() {
		record.CreatedAt = time.Time{}
		if k.model.Publish(o.agency.profile.ID, record) != nil {
			return
		}
		o.listed = true
		o.agency.stock = append(o.agency.stock, o)
		life := days(k.numbers.RentDays.draw(k.random))
		k.planRequests(o, rent, k.table.now(), life)
		k.table.at(k.table.now().Add(life), func() { k.withdraw(o, rent) })
	})
}

func deleteOffer(stock []*offer, gone *offer) []*offer {
	kept := stock[:0]
	for _, o := range stock {
		if o != gone {
			kept = append(kept, o)
		}
	}
	return kept
}

func (k *Market) planPrice(o *offer, born time.Time, life time.Duration) {
	when := born.Add(time.Duration(k.random.Float64() * float64(life)))
	if !likely(k.random, k.numbers.PriceChanged) || when.Before(k.table.now()) {
		return
	}
	k.table.at(when, func() {
		percent := 2 + k.random.IntN(5)
		if !likely(k.random, k.numbers.PriceLowered) {
			percent = -percent
		}
		_ = k.model.Edit(o.agency.profile.ID, o.reference, func(i *Insertion) { changePrice(i, percent) }) // or it is gone
	})
}

// overnight changes ranks and computes scores anew.
func (k *Market) overnight() {
	for _, a := range k.agencies {
		for _, o := range a.stock {
			if likely(k.random, k.numbers.RankChangedPerDay) {
				_ = k.model.Edit(a.profile.ID, o.reference, func(i *Insertion) { changeRank(k.random, i) }) // or it is gone
			}
			for _, id := range o.requests {
				if likely(k.random, k.numbers.RescoredPerDay) {
					_ = k.model.EditContactRequest(id, func(c *ContactRequest) { c.Score = k.score() }) // it is there
				}
			}
		}
	}
}

func (k *Market) score() float64 {
	return math.Round(10_000*beta(k.random, k.numbers.ScoreBeta)) / 100
}

// planRequests draws how many will write in this life, and when: soon after the
// publication, and when people are awake.
func (k *Market) planRequests(o *offer, rent bool, born time.Time, life time.Duration) {
	n, decay, spread := k.numbers.SaleRequests.draw(k.random), time.Duration(0), between(k.random, k.numbers.SaleSpreadMin, k.numbers.SaleSpreadMax)
	if rent {
		n, decay, spread = k.numbers.RentRequests.draw(k.random), k.numbers.Decay, life
	}
	if rent && likely(k.random, k.numbers.Hot) {
		n, decay = float64(k.numbers.HotMin+k.random.IntN(max(k.numbers.HotMax-k.numbers.HotMin, 0)+1)), k.numbers.HotDecay
		k.hot++
	}
	for range int(n + k.random.Float64()) { // rounded so that the mean stays
		when := k.moment(born, decay, min(spread, life))
		if when.Before(k.table.now()) {
			k.write(o, k.table.now().Sub(when))
			continue
		}
		k.table.at(when, func() {
			if o.listed {
				k.write(o, 0)
			}
		})
	}
}

// moment draws when somebody writes: e^(-age/decay), or evenly without decay,
// weighted by hour and weekday.
func (k *Market) moment(born time.Time, decay, life time.Duration) (when time.Time) {
	for range 200 {
		age := k.random.Float64() * float64(life)
		if decay > 0 {
			whole := 1 - math.Exp(-float64(life)/float64(decay))
			age = -math.Log(1-k.random.Float64()*whole) * float64(decay)
		}
		when = born.Add(time.Duration(age))
		if likely(k.random, k.numbers.weight(when)) {
			return when
		}
	}
	return when // a life so short that it is all night
}

// listedRecord returns the record of a visible insertion.
func (m *Model) listedRecord(agencyID, reference string) (Insertion, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := m.insertion(agencyID, reference)
	if i == nil || !i.listed {
		return Insertion{}, false
	}
	return i.current().record.clone(), true
}
