package watch

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"doorbell/poller/listings"
	"doorbell/store"
)

// found is a contact request of a response with what it is recognised by.
type found struct {
	*listings.ContactRequest
	id          string // of the API, else the fingerprint
	nameless    bool   // it is the fingerprint
	fingerprint store.Short
	content     store.Short // zero: the person wrote nothing
	other       store.Short // of another member that may be an id; zero: there is none
	digest      store.Short

	known     *store.ContactRequest // the one that it is; nil: it is new
	unchanged bool                  // is known by the same id and reads as it did
	twin      bool                  // another one is the known one, too: both were known as one
	// identity itself has changed: it takes the place of the known one
	moved bool
	as    string // the id under which a new one is remembered
}

// isAnonymous reports whether nothing of the person is left.
func (f *found) isAnonymous() bool { return f.content == store.Short{} }

// read takes the contact requests of a response, and looks for those that are known by their id and
// read as they did. That holds only where one candidate names all of them, each otherwise.
func (c *comparison) read(requests []listings.ContactRequest) (all []*found) {
	known := map[string]*store.ContactRequest{}
	for n := range c.Known {
		known[c.Known[n].ID] = &c.Known[n]
	}
	fields, ids := map[int]bool{}, map[string]bool{}
	for n := range requests {
		f := &found{ContactRequest: &requests[n]}
		digest := f.Digest(c.Rules.outside)
		f.digest = store.Short(digest[:8])
		field, id := c.Rules.idOf(f.ContactRequest)
		f.id = boundedID(id)
		fields[field], ids[f.id] = true, true
		if k := known[f.id]; k != nil && !k.Redacted && k.Emptied.IsZero() && k.Digest == f.digest &&
			k.Rules == c.Rules.contactRequest && k.CreatedAt.Equal(f.CreatedAt) {
			f.known, f.unchanged = k, true
		}
		all = append(all, f)
	}
	if len(fields) > 1 || len(ids) < len(all) || ids[""] {
		for _, f := range all {
			f.id, f.nameless, f.known, f.unchanged = "", true, nil, false
		}
	}
	return all
}

// identify gives every contact request of a response its id: the first candidate that is present
// and distinct in it, else its fingerprint. One that is shown twice is one. What reads as it did
// has the fingerprint that is remembered: most do, and a new lead does not wait for their hashes.
func identify(reference string, all []*found, rules Rules) []*found {
	for _, f := range all {
		if f.unchanged {
			f.fingerprint, f.content = f.known.Fingerprint, f.known.Content
			continue
		}
		print, content := f.Prints(reference)
		f.fingerprint, f.content = store.Short(print[:8]), content
		if f.nameless {
			f.id = hex.EncodeToString(print[:])
		}
	}
	for _, field := range rules.ids {
		nameBy(field, all)
	}
	nameOthers(all, rules.ids)
	once, places := all[:0], map[string]int{}
	for _, f := range all {
		key := f.id
		if f.nameless {
			key += string(f.content[:]) // two persons may write the same in one second
		}
		if n, twice := places[key]; !twice {
			places[key] = len(once)
			once = append(once, f)
		} else if bytes.Compare(f.digest[:], once[n].digest[:]) > 0 {
			once[n] = f
		}
	}
	return once
}

// idOf is what the first candidate says that is there, and which candidate that is.
func (r Rules) idOf(c *listings.ContactRequest) (field int, id string) {
	for n, name := range r.ids {
		if id = c.ID(name); id != "" {
			return n, id
		}
	}
	return len(r.ids), ""
}

// nameBy takes a field for the id of those that have none yet, unless it says the same of two.
func nameBy(field string, all []*found) {
	prints := map[string]store.Short{}
	for _, f := range all {
		id := f.ID(field)
		if print, twice := prints[id]; twice && id != "" && print != f.fingerprint {
			return
		}
		prints[id] = f.fingerprint
	}
	for _, f := range all {
		if id := f.ID(field); f.nameless && id != "" {
			f.id, f.nameless = boundedID(id), false
		}
	}
}

// boundedID keeps an id fit to be a key and part of a message: a very long or unprintable one is
// replaced by its hash.
func boundedID(id string) string {
	odd := func(r rune) bool { return r < 0x20 || r == 0x7f }
	ours := (store.ContactRequest{ID: id}).Given() != id // it looks like one of store.AgainID
	if len(id) <= 128 && !ours && !strings.ContainsFunc(id, odd) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "sha256-" + hex.EncodeToString(sum[:16])
}

// nameOthers hashes the first other member called …Id that all have and that is distinct.
func nameOthers(all []*found, candidates []string) {
	values := map[string]map[string]*found{} // by name
	for _, f := range all {
		for _, o := range f.OtherIDs(candidates) {
			if values[o.Name] == nil {
				values[o.Name] = map[string]*found{}
			}
			values[o.Name][o.Value] = f
		}
	}
	if len(all) == 0 {
		return
	}
	for _, o := range all[0].OtherIDs(candidates) { // in the order of the record
		if len(values[o.Name]) == len(all) {
			for value, f := range values[o.Name] {
				sum := sha256.Sum256([]byte(o.Name + "\x00" + value))
				f.other = store.Short(sum[:8])
			}
			return
		}
	}
}

// nameNew gives each new contact request an id under which it is remembered, and one that no other
// event has: where it bears the id of another one, of the same moment, it is named by its content.
// Of several that are new the one of the least content keeps the id, whatever their order.
func (c *comparison) nameNew(all []*found) {
	fresh := slices.DeleteFunc(slices.Clone(all), func(f *found) bool { return f.known != nil })
	if len(fresh) == 0 {
		return
	}
	slices.SortStableFunc(fresh, func(a, b *found) int {
		return bytes.Compare(a.content[:], b.content[:])
	})
	taken, given := map[string]bool{}, map[string]bool{}
	for _, k := range c.Known {
		taken[k.ID] = true
	}
	for _, f := range fresh {
		isNamesake := func(k store.ContactRequest) bool {
			return k.Given() == f.id && (k.CreatedAt.IsZero() || f.CreatedAt.IsZero() ||
				isSameSecond(k.CreatedAt, f.CreatedAt))
		}
		if given[f.id] || slices.ContainsFunc(c.Known, isNamesake) {
			sum := sha256.Sum256(slices.Concat([]byte(f.id), f.fingerprint[:], f.content[:]))
			f.id, f.nameless = hex.EncodeToString(sum[:16]), true
		}
		given[f.id] = true
		if f.as = f.id; taken[f.id] {
			f.as = store.AgainID(f.id, f.fingerprint)
		}
	}
}

// candidate is a known contact request that one of the response may be.
type candidate struct {
	*store.ContactRequest
	given string // its id
	taken bool
}

// matching recognises the contact requests of a response among the known ones.
type matching struct {
	all   []*found
	known []*candidate
	view  view
}

// match recognises the contact requests of a response, the surest first: by id and fingerprint; by
// what else tells them from others; by their places where identity itself has changed, which it
// reports. New is what is left.
func match(
	all []*found, known []store.ContactRequest, v view, rules uint32,
) (missing int, moved bool) {
	p := &matching{all: all, view: v}
	taken := map[*store.ContactRequest]bool{}
	for _, f := range all {
		if f.unchanged {
			taken[f.known] = true
		}
	}
	for n := range known {
		k := &known[n]
		p.known = append(p.known, &candidate{k, k.Given(), taken[k]})
	}
	sameID := func(k *candidate, f *found) bool { return k.given == f.id }
	samePrint := func(k *candidate, f *found) bool { return k.Fingerprint == f.fingerprint }

	// An id counts only with the same content, the same creation time, or where one of the times is
	// unknown: APIs give ids again. A fingerprint counts only while its id is missing: a double
	// click with two ids stays two.
	p.take(func(k *candidate, f *found) bool {
		return sameID(k, f) && samePrint(k, f) && (!f.nameless || k.Content == f.content)
	})
	p.take(func(k *candidate, f *found) bool { // an erased one, beside its late twin
		return sameID(k, f) && f.isAnonymous() && (sameSecond(k, f) || unknownTime(k, f))
	})
	p.take(func(k *candidate, f *found) bool {
		return samePrint(k, f) && k.Digest == f.digest && p.isMissing(k, f)
	})
	p.take(func(k *candidate, f *found) bool { return sameID(k, f) && sameSecond(k, f) })
	p.take(func(k *candidate, f *found) bool { return samePrint(k, f) && p.isMissing(k, f) })
	p.take(func(k *candidate, f *found) bool { return sameID(k, f) && sameContent(k, f) })
	p.take(func(k *candidate, f *found) bool { return sameID(k, f) && unknownTime(k, f) })
	if renamed := p.renamed(); len(renamed) >= leastMoved { // ids say nothing
		p.take(func(k *candidate, f *found) bool { return samePrint(k, f) && k.Content == f.content })
		for _, f := range renamed {
			f.moved = true
			moved = moved || f.known.Digest != f.digest && f.known.Rules == rules
		}
	}
	for _, f := range all { // one that is known without an id counts for all that have one now
		for _, k := range p.known {
			if f.known == nil && !f.nameless && k.Nameless && samePrint(k, f) &&
				k.Content == f.content {
				f.known, f.twin = k.ContactRequest, true
			}
		}
	}

	p.take(func(k *candidate, f *found) bool {
		distinct := len(all) > 1 || len(known) == 1 // of one alone any member is
		return f.other != store.Short{} && k.Other == f.other &&
			(sameSecond(k, f) || unknownTime(k, f) && distinct)
	})
	p.take(func(k *candidate, f *found) bool { return k.Digest == f.digest && zoneApart(k, f) })
	p.takeAlone()
	moved = p.takePlaces() || moved
	for _, k := range p.known {
		if !k.taken {
			missing++
		}
	}
	return missing, moved
}

// take pairs what is left where a test speaks for it.
func (p *matching) take(fits func(*candidate, *found) bool) {
	for _, f := range p.all {
		if f.known != nil {
			continue
		}
		isIt := func(k *candidate) bool { return !k.taken && fits(k, f) }
		if n := slices.IndexFunc(p.known, isIt); n >= 0 {
			f.known, p.known[n].taken = p.known[n].ContactRequest, true
		}
	}
}

// renamed are those that were recognised, where all have other ids than before.
func (p *matching) renamed() (all []*found) {
	for _, f := range p.all {
		if k := f.known; k != nil {
			if f.nameless || k.Nameless || k.Given() == f.id {
				return nil
			}
			all = append(all, f)
		}
	}
	return all
}

// takeAlone pairs what is left with one and the same creation time, alone on both sides: the same
// with other content.
func (p *matching) takeAlone() {
	left, known := map[time.Time]int{}, map[time.Time]int{}
	for _, f := range p.all {
		if f.known == nil {
			left[secondOf(f.CreatedAt)]++
		}
	}
	for _, k := range p.known {
		if !k.taken {
			known[secondOf(k.CreatedAt)]++
		}
	}
	p.take(func(k *candidate, f *found) bool {
		second := secondOf(f.CreatedAt)
		return sameSecond(k, f) && left[second] == 1 && known[second] == 1 &&
			(p.view.shows(second) || f.isAnonymous() && len(p.all) >= len(p.known))
	})
}

// leastMoved is how many contact requests must seem to be others before identity itself counts as
// changed.
const leastMoved = 3

// takePlaces lets unknown ones take the places of known ones where identity itself has changed: at
// least three that the response must show are missing, and as many unknown ones are there, none
// younger than the youngest known one.
func (p *matching) takePlaces() bool {
	var youngest time.Time
	var gone []*candidate
	sure := 0 // the others may have been pushed out by new ones of their moment
	for _, k := range p.known {
		youngest = later(youngest, k.CreatedAt)
		if !k.taken && p.mustShow(k.CreatedAt) {
			gone = append(gone, k)
			if p.view.shows(k.CreatedAt) {
				sure++
			}
		}
	}
	var came []*found
	for _, f := range p.all {
		if f.known == nil && !secondOf(f.CreatedAt).After(youngest) && p.mustShow(f.CreatedAt) {
			came = append(came, f)
		}
	}
	if sure < leastMoved || len(gone) != len(came) {
		return false
	}
	slices.SortFunc(gone, func(a, b *candidate) int { return a.CreatedAt.Compare(b.CreatedAt) })
	slices.SortFunc(came, func(a, b *found) int { return a.CreatedAt.Compare(b.CreatedAt) })
	for n, f := range came {
		f.known, gone[n].taken, f.moved = gone[n].ContactRequest, true, true
	}
	return true
}

// mustShow reports whether the response must show what was created at a moment: it is in order, and
// either is not cut there, or shows as many as are known.
func (p *matching) mustShow(at time.Time) bool {
	return p.view.ordered && !at.IsZero() && !at.Before(secondOf(p.view.oldest)) &&
		(p.view.shows(at) || len(p.all) >= len(p.known))
}

// isMissing reports whether the id of a known one is missing from the response, which must show it:
// else it may hide behind its end, and equal texts of one second are others.
func (p *matching) isMissing(k *candidate, f *found) bool {
	return unknownTime(k, f) || (k.Nameless || f.nameless) && k.Content == f.content ||
		p.view.shows(secondOf(f.CreatedAt)) || p.mustShow(f.CreatedAt)
}

func sameSecond(k *candidate, f *found) bool { return isSameSecond(k.CreatedAt, f.CreatedAt) }

func sameContent(k *candidate, f *found) bool {
	return k.Content == f.content && !f.isAnonymous()
}

func isSameSecond(a, b time.Time) bool { return !a.IsZero() && secondOf(a).Equal(secondOf(b)) }

// secondOf is what times are compared by: APIs write them in other units one day.
func secondOf(t time.Time) time.Time { return t.Truncate(time.Second) }

func unknownTime(k *candidate, f *found) bool {
	return k.CreatedAt.IsZero() || f.CreatedAt.IsZero()
}

// zoneApart reports whether two times may be readings of one text.
func zoneApart(k *candidate, f *found) bool {
	apart := k.CreatedAt.Sub(f.CreatedAt)
	return k.CreatedAt.IsZero() != f.CreatedAt.IsZero() ||
		apart != 0 && apart%(15*time.Minute) == 0 && apart.Abs() <= 26*time.Hour
}
