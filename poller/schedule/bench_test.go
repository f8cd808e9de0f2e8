package schedule_test

import (
	"runtime"
	"strconv"
	"testing"
	"time"

	"doorbell/poller/schedule"
)

// BenchmarkNext measures a decision, and the whole cycle of a decision and its answer, in steady state.
func BenchmarkNext(b *testing.B) {
	for _, size := range []struct{ insertions, agencies int }{{10_000, 1}, {100_000, 1}, {100_000, 1000}} {
		b.Run(strconv.Itoa(size.insertions)+"x"+strconv.Itoa(size.agencies), func(b *testing.B) {
			s, bytes := filled(size.insertions, size.agencies)
			now, created := epoch, []time.Time{epoch}
			turn := func() schedule.Insertion {
				now = now.Add(200 * time.Millisecond)
				n, _ := s.Next(now)
				return n.Insertion
			}
			answer := func(i schedule.Insertion, n int) {
				created[0] = now.Add(-time.Second)
				if (int(i.Slot)+n)%(7+int(i.Slot)%97) != 0 {
					s.Polled(i, now, nil)
				} else {
					s.Polled(i, now, created)
				}
			}
			for n := range 2 * size.insertions {
				answer(turn(), n)
			}
			b.ReportAllocs()
			var decided time.Duration
			b.ResetTimer()
			for n := 0; n < b.N; n++ {
				began := time.Now()
				i := turn()
				decided += time.Since(began)
				answer(i, n)
			}
			b.ReportMetric(float64(decided.Nanoseconds())/float64(b.N), "ns/decision")
			b.ReportMetric(bytes, "bytes/insertion")
		})
	}
}

// filled is a schedule with insertions, and how many bytes each takes in it.
func filled(insertions, agencies int) (*schedule.Schedule, float64) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	s := schedule.New(schedule.Options{})
	for range agencies {
		s.Enter(nil)
	}
	for n := range insertions {
		s.Add(schedule.Agency(n%agencies), schedule.Memory{Born: at(-n), LastPoll: epoch.Add(-time.Duration(n) * time.Millisecond)}, epoch)
	}
	s.Next(epoch)
	runtime.GC()
	runtime.ReadMemStats(&after)
	return s, float64(after.HeapAlloc-before.HeapAlloc) / float64(insertions)
}
