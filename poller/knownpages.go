package poller

import (
	"cmp"
	"strings"

	"doorbell/poller/listings"
)

// knownPages are the pages of the last walk that need not be looked at when they come again, by the hashes of their bodies and
// of their records: every reference on them is published, and what the store holds of it was decided by that page and no
// other. Who was missed by a walk, or was shown otherwise elsewhere, stands on no page that is known to the next one.
type knownPages map[listings.Sum]*knownPage

func (k knownPages) find(page *listings.InsertionsPage) *knownPage {
	return cmp.Or(k[page.Body], k[page.Records])
}

func (k knownPages) add(page *listings.InsertionsPage, p *knownPage) {
	k[page.Body], k[p.records] = p, p
}

// knownPage is small: there is one reference on it for every insertion that is remembered.
type knownPage struct {
	records    listings.Sum
	path       string
	total      int
	bytes      int // of its records
	references string
	ends       []uint32 // of the references
}

// known is what a walk tells the client of the pages of the one before.
func (w *walk) known(h listings.Sum) *listings.KnownPage {
	p := w.before[h]
	if p == nil {
		return nil
	}
	all := make([]string, len(p.ends))
	from := uint32(0)
	for n, end := range p.ends {
		all[n], from = p.references[from:end], end
	}
	return &listings.KnownPage{Path: p.path, Total: p.total, Bytes: p.bytes, References: all}
}

// again takes a page of which everything is known. It stays known, unless another page of this walk has decided about one
// of its references before.
func (w *walk) again(page *listings.InsertionsPage) {
	p := w.before.find(page)
	repeated := w.after[p.records] != nil // page 1 may be the first one once more
	decided := true
	reads := make([]recordRead, len(page.Insertions))
	for n, i := range page.Insertions {
		reads[n].reference = i.Reference
		if _, seen := w.seen[i.Reference]; seen {
			decided = false
			page.Insertions[n].Marks = nil // by another record than this one
			continue
		}
		w.seen[i.Reference] = struct{}{}
		w.listed++
	}
	if repeated {
		return
	}
	w.a.tellMarks(reads, func(n int) ([]uint32, bool) { return page.Insertions[n].Marks, false })
	w.a.p.turns.seen(w.a.id, reads, page.Received)
	if decided {
		w.after.add(page, p)
	}
}

// remember keeps a page that was committed, where all that is on it was decided by it.
func (w *walk) remember(page *listings.InsertionsPage, decided int) {
	if !page.Found || page.Unreadable > 0 || len(page.Insertions) == 0 || decided != len(page.Insertions) {
		return
	}
	p := &knownPage{records: page.Records, path: page.Path, total: page.Total, ends: make([]uint32, len(page.Insertions))}
	var all strings.Builder
	for n, i := range page.Insertions {
		all.WriteString(i.Reference)
		p.ends[n] = uint32(all.Len())
		p.bytes += len(i.Record)
	}
	p.references = strings.Clone(all.String())
	w.after.add(page, p)
}
