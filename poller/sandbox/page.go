package sandbox

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// page is what an answer has to show: one page of insertions, or one window of
// contact requests.
type page struct {
	records      []object
	number, size int // the number counted from PageBase
	offset       int // of the first record
	total        int
	kind         string   // what the records are called: insertions, contactRequests
	self         *url.URL // what was asked
	answer       uint64   // its number
}

// pages is the number of pages of this size.
func (p page) pages() int { return (p.total + p.size - 1) / p.size }

// more says whether something follows.
func (p page) more() bool { return p.offset+len(p.records) < p.total }

// list is the array of records, or what the rendering has in its place.
func (p page) list(r Rendering) any {
	switch {
	case r.None == NullList && len(p.records) == 0:
		return nil
	case r.Lonely && len(p.records) == 1:
		return p.records[0]
	}
	return list(p.records)
}

// cursor is where the next page begins; nil at the end.
func (p page) cursor() any {
	if !p.more() {
		return nil
	}
	return base64.RawURLEncoding.EncodeToString([]byte(cursorMark + strconv.Itoa(p.offset+len(p.records))))
}

const cursorMark = "from:"

func readCursor(text string) (offset int, err error) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	digits, ok := strings.CutPrefix(string(b), cursorMark)
	if err != nil || !ok {
		return 0, errQuery
	}
	if offset, err = strconv.Atoi(digits); err != nil || offset < 0 {
		return 0, errQuery
	}
	return offset, nil
}

// link is the address of another page; nil if there is none.
func (p page) link(there bool, number int) any {
	if !there {
		return nil
	}
	u := *p.self
	q := u.Query()
	q.Set("page", strconv.Itoa(number))
	q.Set("pageSize", strconv.Itoa(p.size))
	u.RawQuery = q.Encode()
	return u.String()
}

func (p page) next() any                { return p.link(p.more(), p.number+1) }
func (p page) previous(r Rendering) any { return p.link(p.number > r.PageBase, p.number-1) }

// totals are members that say how much there is, unless the rendering hides it.
func (r Rendering) totals(members ...member) object {
	if r.NoTotals {
		return nil
	}
	return members
}

// header tells the total beside the body.
func (r Rendering) header(p page) http.Header {
	h := http.Header{}
	if !r.TotalsInHeader {
		return h
	}
	h.Set("X-Total-Count", strconv.Itoa(p.total))
	if next, ok := p.next().(string); ok && p.kind == insertionsKind {
		h.Set("Link", fmt.Sprintf(`<%s>; rel="next"`, next))
	}
	return h
}

// begin says where a page begins, among so many insertions, or with which status
// it is refused.
func (r Rendering) begin(q insertionQuery, total int) (offset, status int) {
	reachable := total
	if r.MaxDepth > 0 {
		reachable = min(total, r.MaxDepth)
	}
	switch {
	case q.cursor > 0:
		offset = q.cursor
	case r.PageIgnored:
		return 0, http.StatusOK
	case q.page-r.PageBase > total: // before the product can overflow
		offset = total + 1
	default:
		offset = (q.page - r.PageBase) * q.size
	}
	if offset == 0 || offset < reachable {
		return offset, http.StatusOK
	}
	switch r.PastEnd {
	case 0:
		return total, http.StatusOK
	case LastPageAgain:
		return max(reachable-1, 0) / q.size * q.size, http.StatusOK
	}
	return 0, r.PastEnd
}

// insertions reads one page: the newest publication first.
func (m *Model) insertions(c caller, q insertionQuery, r Rendering, s sight, answer uint64) (page, receipt, int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var selected []*insertion
	for _, i := range slices.Backward(s.listed(m.mixedUp(c.call.AgencyID, s))) {
		if q.selects(&s.version(i).record) {
			selected = append(selected, i)
		}
	}
	selected = selected[min(s.newest, len(selected)):]
	offset, status := r.begin(q, len(selected))
	if status != http.StatusOK {
		return page{}, receipt{}, status
	}
	p := page{number: q.page, size: q.size, offset: offset, total: len(selected), kind: insertionsKind}
	if offset < p.total {
		p.number = offset/q.size + r.PageBase
	}
	var shown receipt
	for _, i := range selected[offset:min(offset+q.size, len(selected))] {
		v := s.version(i)
		p.records = append(p.records, r.insertionRecord(i, v, s, s.damageOf(len(p.records)), answer))
		shown.add(&v.served, i.reference)
	}
	return p, shown, http.StatusOK
}

// window reads the contact requests of one insertion, or says which status it
// has instead.
func (m *Model) window(c caller, q windowQuery, r Rendering, s sight) (page, receipt, int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := c.target
	if i == nil {
		return page{}, receipt{}, m.options.UnknownStatus
	}
	if !i.listed && m.options.WithdrawnStatus != http.StatusOK {
		return page{}, receipt{}, m.options.WithdrawnStatus
	}
	visible := m.neighbour(i, s).visibleContactRequests(s, q, r.WindowOrder)
	p := page{number: r.PageBase, size: q.size, total: len(visible), kind: contactRequestsKind}
	var shown receipt
	for _, c := range visible[:min(q.size, len(visible))] {
		v := s.versionOf(c)
		p.records = append(p.records, r.contactRequestRecord(v, c.owner.reference, s.damageOf(len(p.records))))
		shown.add(&v.served, c.id)
	}
	return p, shown, http.StatusOK
}

const (
	insertionsKind      = "insertions"
	contactRequestsKind = "contactRequests"
)
