package sandbox

import (
	"context"
	"encoding/json"
	"reflect"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestAnyRecordSurvivesTheRendering(t *testing.T) {
	value := rapid.Deferred(func() *rapid.Generator[any] { return anyJSON(3) })
	rapid.Check(t, func(t *rapid.T) {
		want := map[string]any{"x": value.Draw(t, "value")}
		text, err := json.Marshal(want)
		noErrorRapid(t, err)
		r := Flat()
		r.Seed = rapid.Uint64().Draw(t, "seed")
		r.Steady = rapid.Bool().Draw(t, "steady")
		var got map[string]any
		noErrorRapid(t, json.Unmarshal(r.write(members(text), 1), &got))
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%v became %v", want, got)
		}
	})
}

func noErrorRapid(t *rapid.T, err error) {
	if err != nil {
		t.Fatal(err)
	}
}

func anyJSON(depth int) *rapid.Generator[any] {
	kinds := []*rapid.Generator[any]{
		rapid.Just[any](nil), rapid.Bool().AsAny(), rapid.Float64().AsAny(), rapid.String().AsAny(),
	}
	if depth > 0 {
		inner := rapid.Deferred(func() *rapid.Generator[any] { return anyJSON(depth - 1) })
		kinds = append(kinds, rapid.SliceOfN(inner, 0, 4).AsAny(), rapid.MapOfN(rapid.String(), inner, 0, 4).AsAny())
	}
	return rapid.OneOf(kinds...)
}

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

func BenchmarkPage(b *testing.B) {
	m := newModel(Options{})
	g := NewGenerator(m, GeneratorOptions{Agencies: []string{"A100"}, Insertions: 1000, History: 20})
	g.Seed()
	h := New(m, Flat())
	ref := m.Truth().Insertions[0].Reference
	for name, target := range map[string]string{
		"insertions":      insertionsPath("A100") + "?pageSize=100",
		"contactRequests": contactRequestsPath(ref),
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				ask(h, testKey, target)
			}
		})
	}
}
