package poller

// WalkNow asks for a walk.
func (p *Poller) WalkNow(agencyID string) { p.byID[agencyID].wakeWalk() }
