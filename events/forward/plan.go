package forward

import (
	"slices"
	"strings"

	"doorbell/events"
)

// plan makes the lanes of the routes: for each destination one for leads and one for alerts, as far as its filters take any.
func (f *Forwarder) plan() (lanes []*lane) {
	destinations := map[string]*destination{}
	byKey := map[string]*lane{}
	for _, r := range f.o.Routes {
		name := r.Outlet.Traits().Destination
		if destinations[name] == nil {
			destinations[name] = newDestination(r.Outlet)
		}
		for _, k := range []Kind{Leads, Alerts} {
			if len(r.Filter.narrow(k)) == 0 {
				continue
			}
			l := byKey[laneKey(name, k)]
			if l == nil {
				l = newLane(f, destinations[name], k)
				byKey[l.key] = l
				lanes = append(lanes, l)
			}
			l.filters = append(l.filters, r.Filter)
		}
	}
	for _, l := range lanes {
		var whose []string
		for _, f := range l.filters {
			whose = append(whose, f.Whose())
		}
		l.status.s.Whose = strings.Join(whose, ", ")
		l.consumer = "doorbell-" + f.o.Name + "-" + string(l.kind)
		if slices.ContainsFunc(lanes, func(other *lane) bool { return other != l && other.kind == l.kind }) {
			l.consumer += "-" + l.dest.name
		}
	}
	return lanes
}

func laneKey(destination string, k Kind) string { return destination + "/" + string(k) }

// subjects are what a consumer is narrowed to. They do not overlap. Too many of them are as good as none.
func (l *lane) subjects(prefix string, several bool) []string {
	const most = 100
	var all []string
	for _, f := range l.filters {
		agencies := []string{"*"}
		if f.Agencies != nil {
			agencies = nil
			for _, a := range f.Agencies {
				if !slices.Contains(f.Except, a) {
					agencies = append(agencies, events.Token(a))
				}
			}
		}
		for _, t := range f.narrow(l.kind) {
			for _, a := range agencies {
				all = append(all, prefix+".v1."+a+"."+t)
			}
		}
	}
	all = apart(all)
	switch {
	case len(all) == 1:
		return all
	case len(all) == 0 || len(all) > most || !several:
		return []string{events.StreamSubjects(prefix)}
	}
	return all
}

// apart leaves out subjects that others cover. Where two overlap and neither covers the other, nothing is narrowed.
func apart(all []string) []string {
	slices.Sort(all)
	all = slices.Compact(all)
	var kept []string
	for i, s := range all {
		if !slices.ContainsFunc(all, func(other string) bool { return other != s && covers(other, s) }) {
			kept = append(kept, all[i])
		}
	}
	for i, s := range kept {
		if slices.ContainsFunc(kept[i+1:], func(other string) bool { return overlap(s, other) }) {
			return nil
		}
	}
	return kept
}

// covers says whether every subject of b is one of a. Both may hold * and end in >.
func covers(a, b string) bool {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	for i, token := range x {
		switch {
		case i >= len(y):
			return false
		case token == ">":
			return true
		case y[i] == ">", token != "*" && token != y[i]:
			return false
		}
	}
	return len(x) == len(y)
}

// overlap says whether a subject can be one of both.
func overlap(a, b string) bool {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(x), len(y)) {
		if x[i] == ">" || y[i] == ">" {
			return true
		}
		if x[i] != y[i] && x[i] != "*" && y[i] != "*" {
			return false
		}
	}
	return len(x) == len(y)
}
