package schedule

// The orders in which agencies stand.
const (
	ready  = iota // by virtual time
	asleep        // by the moment at which there will be something to do
	byAge         // by a lower bound of the last poll of what waits there
	orders
)

// agencies is a heap of agencies, the one with the least key first. An agency knows its place in each of the three.
type agencies struct {
	order int
	list  []*agency
}

func (h *agencies) first() *agency {
	if len(h.list) == 0 {
		return nil
	}
	return h.list[0]
}

// put adds an agency, or moves it.
func (h *agencies) put(g *agency, key int64) {
	g.key[h.order] = key
	n := int(g.place[h.order])
	if n < 0 {
		n = len(h.list)
		g.place[h.order] = int32(n)
		h.list = append(h.list, g)
	}
	h.up(h.down(n))
}

func (h *agencies) drop(g *agency) {
	n := int(g.place[h.order])
	if n < 0 {
		return
	}
	end := len(h.list) - 1
	h.swap(n, end)
	h.list[end] = nil
	h.list = h.list[:end]
	g.place[h.order] = -1
	if n < end {
		h.up(h.down(n))
	}
}

func (h *agencies) up(n int) {
	for n > 0 && h.less(n, (n-1)/2) {
		h.swap(n, (n-1)/2)
		n = (n - 1) / 2
	}
}

func (h *agencies) down(n int) int {
	for {
		least := n
		for c := 2*n + 1; c <= 2*n+2; c++ {
			if c < len(h.list) && h.less(c, least) {
				least = c
			}
		}
		if least == n {
			return n
		}
		h.swap(n, least)
		n = least
	}
}

func (h *agencies) less(a, b int) bool { return h.list[a].key[h.order] < h.list[b].key[h.order] }

func (h *agencies) swap(a, b int) {
	h.list[a], h.list[b] = h.list[b], h.list[a]
	h.list[a].place[h.order], h.list[b].place[h.order] = int32(a), int32(b)
}

// delays are the insertions of an agency that failed, the one that is due first at the top.
type delays []delay

type delay struct {
	due  int64
	slot uint32
}

func (d *delays) put(due int64, slot uint32) {
	*d = append(*d, delay{due, slot})
	h := *d
	for n := len(h) - 1; n > 0 && h[n].due < h[(n-1)/2].due; n = (n - 1) / 2 {
		h[n], h[(n-1)/2] = h[(n-1)/2], h[n]
	}
}

func (d *delays) pop() {
	h := *d
	end := len(h) - 1
	h[0] = h[end]
	h = h[:end]
	*d = h
	for n := 0; ; {
		least := n
		for c := 2*n + 1; c <= 2*n+2; c++ {
			if c < end && h[c].due < h[least].due {
				least = c
			}
		}
		if least == n {
			return
		}
		h[n], h[least] = h[least], h[n]
		n = least
	}
}
