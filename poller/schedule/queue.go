package schedule

// queue is a heap whose members know their places in it, -1 while they are not.
type queue[T any] struct {
	list  []T
	key   func(T) int64
	place func(T) *int32
}

func (q *queue[T]) first() (x T, ok bool) {
	if len(q.list) == 0 {
		return x, false
	}
	return q.list[0], true
}

// put adds a member, or moves it to where its key says.
func (q *queue[T]) put(x T) {
	if *q.place(x) < 0 {
		*q.place(x) = int32(len(q.list))
		q.list = append(q.list, x)
	}
	q.fix(int(*q.place(x)))
}

func (q *queue[T]) drop(x T) {
	n, end := int(*q.place(x)), len(q.list)-1
	if n < 0 {
		return
	}
	q.swap(n, end)
	q.list = q.list[:end]
	*q.place(x) = -1
	if n < end {
		q.fix(n)
	}
}

// rebuild makes a heap of it again after all keys have changed.
func (q *queue[T]) rebuild() {
	for n := len(q.list)/2 - 1; n >= 0; n-- {
		q.down(n)
	}
}

func (q *queue[T]) fix(n int) {
	for n = q.down(n); n > 0 && q.less(n, (n-1)/2); n = (n - 1) / 2 {
		q.swap(n, (n-1)/2)
	}
}

func (q *queue[T]) down(n int) int {
	for {
		least := n
		for c := 2*n + 1; c <= 2*n+2 && c < len(q.list); c++ {
			if q.less(c, least) {
				least = c
			}
		}
		if least == n {
			return n
		}
		q.swap(n, least)
		n = least
	}
}

func (q *queue[T]) less(a, b int) bool { return q.key(q.list[a]) < q.key(q.list[b]) }

func (q *queue[T]) swap(a, b int) {
	q.list[a], q.list[b] = q.list[b], q.list[a]
	*q.place(q.list[a]), *q.place(q.list[b]) = int32(a), int32(b)
}
