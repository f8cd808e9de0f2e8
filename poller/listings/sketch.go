package listings

import (
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// sketch says what of the answers of an operation is read, so that the rest can be left out of their content.
type sketch struct {
	pointer string
	place   Sum // of the pointer: records in another place are another answer
	root    *spot
	record  *spot
	watched []string // members of records whose marks are made
}

// spot is where a value stands of which not everything counts. Where all of it does, there is no spot.
type spot struct {
	at      place
	onward  string // around the records: the member on the way to them, "" if there is none
	next    *spot  // that leads to
	unread  []string
	score   bool // the score is unread, too
	deeper  []step
	marks   bool // the members that are watched are its own
	members bool // where its members stand is kept

	lengths uint64 // of the names of all of these, one bit for each
}

// step is the spot of a member of a record.
type step struct {
	name string
	to   *spot
}

type place int

const (
	around place = iota // the envelope
	inList              // the list of records
	record              // one of them, or an object in it that holds what is ignored
)

// aside is what stands around the records and does not lead to them.
var aside = &spot{at: around}

// envelopeNames are the plain names of what is read beside the records.
var envelopeNames = plainNames(
	totalNames, countNames, metaNames, errorNames, failureNames, successNames, codeNames, errorCodes, referenceNames,
	[]string{"status", "agencyId", "value", "relation"},
)

// recordNames are the plain names of what is read of a record beside its digest.
var recordNames = plainNames(
	referenceNames, []string{"agencyId"}, creationNames, wrapperNames, personFields, insertionMembers,
	errorNames, errorCodes,
)

func plainNames(lists ...[]string) map[string]struct{} {
	all := map[string]struct{}{}
	for _, list := range lists {
		for _, name := range list {
			all[plain(name)] = struct{}{}
		}
	}
	return all
}

// newSketch is for an operation whose records are at path.
func newSketch(path string, ignore, idFields []string, score bool) *sketch {
	s := &sketch{pointer: path, place: sumOf([]byte(path)), watched: Watched(ignore)}
	heeded := plainNames(idFields)
	s.record = recordSpot(tokens(ignore), heeded, score, 0)
	s.record.watch(s.watched)
	s.record.members = score
	s.root = &spot{at: inList}
	for _, token := range slices.Backward(slices.Collect(jsontext.Pointer(path).Tokens())) {
		s.root = &spot{at: around, onward: token, next: s.root}
	}
	return s
}

// recordSpot is that of a record, or of an object so deep in it. The score of one is its own or one level down;
// one that is spelled with more separators counts, which costs a decoding and no more.
func recordSpot(ignore [][]string, heeded map[string]struct{}, score bool, depth int) *spot {
	isRead := func(name string) bool { return isOneOf([]byte(name), recordNames) || isOneOf([]byte(name), heeded) }
	s := &spot{at: record, score: score && depth < 2 && !isRead("score"), lengths: lengthBit(len("score")) | lengthBit(len("_score"))}
	for _, t := range ignore {
		s.lengths |= lengthBit(len(t[0]))
		if len(t) == 1 && !isRead(t[0]) {
			s.unread = append(s.unread, t[0])
		}
		if deeper, _ := below(ignore, t[0]); len(deeper) > 0 && s.below([]byte(t[0])) == nil {
			s.deeper = append(s.deeper, step{t[0], recordSpot(deeper, heeded, score, depth+1)})
		}
	}
	return s
}

func (s *spot) watch(names []string) {
	s.marks = len(names) > 0
	for _, name := range names {
		s.lengths |= lengthBit(len(name))
	}
}

func lengthBit(n int) uint64 { return 1 << min(n, 63) }

// concerns says whether a member may not count, or not all of it. Most are none of those.
func (s *spot) concerns(name []byte) bool {
	return s != nil && (s.at != record || s.lengths&lengthBit(len(name)) != 0)
}

// below is the spot of what a member holds; nil where all of it counts.
func (s *spot) below(name []byte) *spot {
	switch {
	case s.at == around && s.next != nil && string(name) == s.onward:
		return s.next
	case s.at == around:
		return aside
	}
	for _, d := range s.deeper {
		if string(name) == d.name {
			return d.to
		}
	}
	return nil
}

// leadsTo says whether a member is to hold the list of records.
func (s *spot) leadsTo(name []byte) bool {
	return s.next != nil && s.next.at == inList && string(name) == s.onward
}

// kindUnread is the kind of a scalar that is not read, so that its text may be any; 0 if it counts as it is.
func (s *spot) kindUnread(name, value []byte) uint64 {
	if s.at == around && isOneOf(name, envelopeNames) || s.at == record && !s.leavesOut(name) {
		return 0
	}
	return plainKind(value)
}

// leavesOut says whether a member of a record is not read.
func (s *spot) leavesOut(name []byte) bool {
	if s.score && isScore(name) {
		return true
	}
	for _, unread := range s.unread {
		if string(name) == unread {
			return true
		}
	}
	return false
}
