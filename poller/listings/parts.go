package listings

import (
	"iter"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// parts are where the records of a list stand in a body, and the members of each, as a scanner has come by them. The zero
// value knows none, and takes none.
type parts struct {
	records []recordPart
	members []memberPart // of all records
	wanted  bool
}

type recordPart struct {
	from, to uint32
	members  int // where those of the next record begin
}

// memberPart is where a member stands in its record: its name, without the quotes, and its value.
type memberPart struct{ name, nameEnd, from, to uint32 }

// mostParts is how many there is room kept for when a body has been read.
const mostParts = 1 << 12

// reset forgets them all.
func (p *parts) reset(wanted bool) {
	p.records, p.members, p.wanted = p.records[:0], p.members[:0], wanted
}

// begin takes a record, whose members are to come.
func (p *parts) begin(from int) {
	if p.wanted {
		p.records = append(p.records, recordPart{from: uint32(from)})
	}
}

// member takes a member, whose value ends at end.
func (p *parts) member(b []byte, name memberName, end int) {
	if p.wanted {
		colon, from := space(b, name.to+1), p.records[len(p.records)-1].from
		m := memberPart{uint32(name.from), uint32(name.to), uint32(space(b, colon+1)), uint32(end)}
		p.members = append(p.members, memberPart{m.name - from, m.nameEnd - from, m.from - from, m.to - from})
	}
}

// end takes the end of the record that was taken last.
func (p *parts) end(to int) {
	if p.wanted {
		last := &p.records[len(p.records)-1]
		last.to, last.members = uint32(to), len(p.members)
	}
}

// each yields copies of the records of a body, and the members of each.
func (p *parts) each(body []byte) iter.Seq2[jsontext.Value, []memberPart] {
	return func(yield func(jsontext.Value, []memberPart) bool) {
		begin, members := p.records[0].from, 0
		text := slices.Clone(body[begin:p.records[len(p.records)-1].to])
		for _, r := range p.records {
			if !yield(text[r.from-begin:r.to-begin:r.to-begin], p.members[members:r.members]) {
				return
			}
			members = r.members
		}
	}
}
