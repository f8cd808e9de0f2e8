package poller

// WalkNow requests a walk.
func (p *Poller) WalkNow(agencyID string) { p.byID[agencyID].wakeWalk() }
