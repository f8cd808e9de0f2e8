package shape

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// tree is the lines of one body by where they stand.
type tree struct {
	name    string // of a member
	again   int
	of      int // how many objects or elements are around it
	kinds   []*kind
	members []*tree
	sizes   []int   // of an entry: how many each object has
	element *tree   // of arrays
	entries []*tree // members whose names may be data, by class
}

// kind is a line, and which of the objects or elements around it have it.
type kind struct {
	Line
	at    []int
	sizes []int // of arrays, in their order
}

var errLines = errors.New("lines that do not belong together")

// grow builds the tree that lines describe.
func grow(lines []Line) (*tree, error) {
	root := &tree{}
	for n, l := range lines {
		t, err := root.find(l)
		if err == nil {
			err = t.add(l)
		}
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", n+1, err)
		}
	}
	if len(root.kinds) == 0 {
		return nil, errors.New("there is no line of the root")
	}
	root.share()
	return root, nil
}

func (t *tree) find(l Line) (*tree, error) {
	if l.Path == "" {
		return t, nil
	}
	tokens := strings.Split(l.Path, "/")[1:]
	if len(tokens) > maxDepth+1 {
		return nil, errLines
	}
	for n, token := range tokens {
		var next **tree
		switch {
		case token == "*":
			next = &t.element
		case strings.HasPrefix(token, "{"):
			next = among(&t.entries, token, 0)
		case n == len(tokens)-1:
			next = among(&t.members, token, l.Again)
		default:
			next = among(&t.members, token, 0)
		}
		if *next == nil {
			*next = &tree{name: token}
		}
		t = *next
	}
	return t, nil
}

// among returns the place of a name in a list.
func among(list *[]*tree, name string, again int) **tree {
	n := slices.IndexFunc(*list, func(t *tree) bool { return t.name == name && t.again == again })
	if n < 0 {
		n = len(*list)
		*list = append(*list, &tree{name: name, again: again})
	}
	return &(*list)[n]
}

// mostMadeUp bounds how much one line may stand for.
const mostMadeUp = 100_000

func (t *tree) add(l Line) error {
	if t.of = max(t.of, l.Of); l.In < 1 || l.In > l.Of || l.Of > mostMadeUp || l.Length != nil && (l.Length.Min < 0 || l.Length.Max < l.Length.Min) {
		return errLines
	}
	k := &kind{Line: l}
	if l.At != "" {
		for run := range strings.SplitSeq(l.At, ",") {
			from, to, isRun := strings.Cut(run, "-")
			a, err := strconv.Atoi(from)
			b := a
			if isRun && err == nil {
				b, err = strconv.Atoi(to)
			}
			if err != nil || a < 1 || b < a || b > l.Of {
				return errLines
			}
			for ; a <= b; a++ {
				k.at = append(k.at, a-1)
			}
		}
		slices.Sort(k.at)
	}
	t.kinds = append(t.kinds, k)
	return nil
}

// share gives lines without positions what is left, and arrays their lengths.
func (t *tree) share() {
	taken := map[int]bool{}
	for _, k := range t.kinds {
		for _, n := range k.at {
			taken[n] = true
		}
	}
	for _, k := range t.kinds {
		for n := 0; len(k.at) < k.In && n < t.of; n++ {
			if !taken[n] {
				taken[n] = true
				k.at = append(k.at, n)
			}
		}
		if k.Type == "array" && t.element != nil {
			k.sizes = split(t.element.of, k.In, k.Length)
		}
		if k.Type == "object" {
			for _, e := range t.entries {
				e.sizes = split(e.of, k.In, nil)
			}
		}
	}
	for _, inner := range slices.Concat(t.members, t.entries, []*tree{t.element}) {
		if inner != nil {
			inner.share()
		}
	}
}

// split deals out a sum, each part within bounds as far as that is possible.
func split(sum, parts int, bounds *Range) []int {
	if bounds == nil {
		bounds = &Range{0, (sum + parts - 1) / parts}
	}
	sizes := make([]int, parts)
	for n := range sizes {
		sizes[n] = bounds.Min
		sum -= bounds.Min
	}
	for n := range sizes {
		more := max(0, min(sum, bounds.Max-bounds.Min))
		sizes[n] += more
		sum -= more
	}
	return sizes
}
