package poller

// bits gives the top-level members of an agency's records a bit each, in the order in which they were first seen to
// change. All others share the last one. The zero value knows none.
type bits struct{ names []string }

const (
	bitsVersion  = 1
	ownBits      = 31      // members that have one of their own
	otherMembers = 1 << 31 // all others
	longestName  = 255     // of a member that gets one
)

// of is the bit of a member, which it gets now if it has none.
func (b *bits) of(name string) uint32 {
	for n, known := range b.names {
		if known == name {
			return 1 << n
		}
	}
	if len(b.names) == ownBits || len(name) > longestName {
		return otherMembers
	}
	b.names = append(b.names, name)
	return 1 << (len(b.names) - 1)
}

// encode puts the names before what was learned of their bits: apart from each other neither means anything.
func (b *bits) encode(learned []byte) []byte {
	out := []byte{bitsVersion, byte(len(b.names))}
	for _, name := range b.names {
		out = append(append(out, byte(len(name))), name...)
	}
	return append(out, learned...)
}

// restore takes the names from what encode returned, and returns what was learned of their bits. Of anything else it takes
// nothing.
func (b *bits) restore(all []byte) (learned []byte) {
	if len(all) < 2 || all[0] != bitsVersion || all[1] > ownBits {
		return nil
	}
	count, rest := int(all[1]), all[2:]
	var names []string
	for range count {
		if len(rest) == 0 || len(rest) <= int(rest[0]) {
			return nil
		}
		end := 1 + int(rest[0])
		names = append(names, string(rest[1:end]))
		rest = rest[end:]
	}
	b.names = names
	return rest
}
