package listings

import (
	"encoding/json"
	"iter"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// contactReader reads the contact requests of one answer. What most of them have in common is found once.
type contactReader struct {
	client *Client
	asked  Request
	usual  bool // each text, number and word of the body is written as in canonical form, and no object holds a name twice
	like   formed
	read   []decoded // of those that are still to come
}

// readContactRequests fills a page from the list of its records.
func (c *Client) readContactRequests(page *ContactRequestsPage, x *exchange, l list) error {
	k := contactReader{client: c, asked: x.request, usual: x.scan.usual, like: formed{left: l.count}, read: make([]decoded, l.count)}
	last := c.form.Load()
	if last != nil {
		k.like.form = *last
	}
	page.ContactRequests = make([]ContactRequest, 0, l.count)
	for raw, members := range l.copies(x.body) {
		r, filled, wrong := k.contactRequest(raw, members)
		if !filled {
			page.Unreadable++
			continue
		}
		if wrong != "" {
			return x.drift("contact requests of what was asked for", wrong)
		}
		page.ContactRequests = append(page.ContactRequests, r)
	}
	if n := len(k.like.places); n > 0 && n <= mostRoom && len(x.body) <= largestBuffer && (last == nil || &last.places[0] != &k.like.places[0]) {
		c.form.Store(&form{k.like.sorted, k.like.places})
	}
	return nil
}

// copies yields copies of the records, as the body is used again, and where their members stand, if that is known.
func (l list) copies(body []byte) iter.Seq2[jsontext.Value, []memberPart] {
	if len(l.parts.records) > 0 {
		return l.parts.each(trimBOM(body))
	}
	l.raw = slices.Clone(l.raw)
	return func(yield func(jsontext.Value, []memberPart) bool) {
		for raw := range l.records() {
			if !yield(raw, nil) {
				return
			}
		}
	}
}

// contactRequest reads an element of the list, if it is filled.
func (k *contactReader) contactRequest(raw jsontext.Value, members []memberPart) (r ContactRequest, filled bool, wrong string) {
	o, plain := k.like.parse(raw, members)
	if !isFilled(o.members()) {
		return r, false, ""
	}
	r.Record, r.read = json.RawMessage(raw), &k.read[0]
	k.read = k.read[1:]
	r.read.ignored = k.client.o.IgnoreContactRequests
	if plain && k.usual {
		r.read.digest, r.read.whole = usualDigest(r.Record, o, k.client.unread)
	} else {
		r.read.digest, r.read.whole = quickDigest(r.Record, k.client.unread, true)
	}
	if !r.read.whole { // else it is compact and proper
		r.Record, r.Defects = compact(raw)
		o = parse(jsontext.Value(r.Record))
	}
	if len(o)*leastMember <= len(r.Record) {
		r.read.members = o
		k.like.keep(o)
	}
	if named := o.references(); len(named) > 0 && !slices.Contains(named, k.asked.Reference) {
		return r, true, "one of another insertion"
	} else if len(named) > 0 {
		r.Reference = k.asked.Reference
	}
	for agency := range o.all("agencyid") {
		if isOtherAgency(agency, k.asked.AgencyID) {
			return r, true, "one of another agency"
		}
	}
	var unreadable bool
	if r.CreatedAt, r.Minutes, unreadable = o.created(k.client.o.TimeZone); unreadable {
		r.Defects = append(r.Defects, DefectTime)
		slices.Sort(r.Defects)
	}
	r.Score = o.score()
	return r, true, ""
}
