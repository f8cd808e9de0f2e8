package sandbox

import (
	"context"
	"sync"
	"testing"
	"time"
)

func TestAModelIsUsedByManyAtOnce(t *testing.T) {
	m := newModel(Options{KeepLog: true})
	g := NewGenerator(m, GeneratorOptions{Agencies: []string{"A100", "B200"}, Insertions: 12, ContactRequestsPerMinute: 6e6, ChangesPerMinute: 6e6})
	g.Seed()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	h := New(m, Nested())
	var all sync.WaitGroup
	all.Go(func() { g.Run(ctx) })
	for range 3 {
		all.Go(func() {
			for ctx.Err() == nil {
				refs := m.listedReferences("A100")
				ask(h, testKey, insertionsPath("A100"))
				ask(h, testKey, contactRequestsPath(refs[0]))
			}
		})
	}
	all.Go(func() {
		for ctx.Err() == nil {
			m.Truth()
			m.Counts()
			m.Log(Filter{})
		}
	})
	all.Wait()
	if m.Requests(Filter{Status: 200}) < 10 {
		t.Error("hardly a request was answered")
	}
}
