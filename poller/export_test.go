package poller

// WalkNow asks for a walk.
func (p *Poller) WalkNow(agencyID string) { p.byID[agencyID].wakeWalk() }

// LimitPolls lets no more than so many polls be under way at once.
func (p *Poller) LimitPolls(most int) { p.dispatcher.maxPolls = most }

// Audit lets every response be judged. f hears of those that are settled whether they changed nothing. It must be called before Run.
func (p *Poller) Audit(f func(unchanged bool)) {
	p.auditPage = f
	p.audit = func(l *poll) func() {
		before, learned := *l.state, l.a.shownSoFar()
		return func() {
			after := *l.state
			after.at, after.settled.body = before.at, before.settled.body
			f(after == before && l.a.shownSoFar() == learned)
		}
	}
}
