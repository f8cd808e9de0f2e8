package forward

import (
	"slices"
	"strings"

	"doorbell/events"
)

// plan makes the workers of the routes: for each destination one for leads and one for alerts, as far as its filters take any.
func (f *Forwarder) plan() (workers []*worker) {
	destinations := map[string]*destination{}
	byKey := map[string]*worker{}
	for _, r := range f.o.Routes {
		name := r.Receiver.Traits().Destination
		if destinations[name] == nil {
			destinations[name] = newDestination(r.Receiver)
		}
		for _, k := range []Kind{Leads, Alerts} {
			if len(patterns([]Filter{r.Filter}, k)) == 0 {
				continue
			}
			l := byKey[workerKey(name, k)]
			if l == nil {
				l = newWorker(f, destinations[name], k)
				byKey[l.key] = l
				workers = append(workers, l)
			}
			l.filters = append(l.filters, r.Filter)
		}
	}
	for _, l := range workers {
		var whose []string
		for _, f := range l.filters {
			whose = append(whose, f.Whose())
		}
		l.status.s.Whose = strings.Join(whose, ", ")
		l.consumer = "doorbell-" + f.o.Name + "-" + string(l.kind)
		if slices.ContainsFunc(workers, func(other *worker) bool { return other != l && other.kind == l.kind }) {
			l.consumer += "-" + l.dest.name
		}
	}
	return workers
}

func workerKey(destination string, k Kind) string { return destination + "/" + string(k) }

// subjects are what a consumer is narrowed to: the types of all filters, of the agencies of all filters. They do not overlap. Too many of
// them are as good as none. All that comes is filtered once more.
func (l *worker) subjects(prefix string) []string {
	const most = 100
	agencies := []string{"*"}
	if !slices.ContainsFunc(l.filters, func(f Filter) bool { return f.Agencies == nil }) {
		agencies = nil
		for _, f := range l.filters {
			for _, a := range f.Agencies {
				if f.covers(a) {
					agencies = append(agencies, events.Token(a))
				}
			}
		}
		slices.Sort(agencies)
		agencies = slices.Compact(agencies)
	}
	var all []string
	for _, t := range patterns(l.filters, l.kind) {
		for _, a := range agencies {
			all = append(all, prefix+".v1."+a+"."+t)
		}
	}
	if len(all) == 0 || len(all) > most {
		return []string{events.StreamSubjects(prefix)}
	}
	return all
}
