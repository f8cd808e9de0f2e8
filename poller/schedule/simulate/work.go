package main

import (
	"runtime"
	"sync"

	"doorbell/poller/schedule/trace"
)

// job is one simulation. Rows share those that are the same.
type job struct {
	market trace.Market
	run    trace.Run
	policy trace.Policy
}

type result struct {
	figures *trace.Figures
	done    chan struct{}
}

// work runs jobs on all cores, the first wished first.
type work struct {
	mu      sync.Mutex
	results map[job]*result
	queue   []job
	traces  map[trace.Market]func() *trace.Trace
}

func newWork() *work {
	return &work{results: map[job]*result{}, traces: map[trace.Market]func() *trace.Trace{}}
}

// add wishes for a job. What does not look at records is not run again for other ones.
func (w *work) add(j job) *result {
	if j.policy != trace.Real {
		j.run.Records, j.run.Births = trace.Records{}, false
	}
	if r := w.results[j]; r != nil {
		return r
	}
	r := &result{done: make(chan struct{})}
	w.results[j] = r
	w.queue = append(w.queue, j)
	if w.traces[j.market] == nil {
		w.traces[j.market] = sync.OnceValue(func() *trace.Trace { return trace.New(j.market) })
	}
	return r
}

// begin runs all that was wished, and returns at once.
func (w *work) begin() {
	for range runtime.GOMAXPROCS(0) {
		go func() {
			for j, r := w.next(); r != nil; j, r = w.next() {
				r.figures = j.run.Simulate(w.trace(j.market), j.policy)
				close(r.done)
			}
		}()
	}
}

func (w *work) next() (job, *result) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) == 0 {
		return job{}, nil
	}
	j := w.queue[0]
	w.queue = w.queue[1:]
	return j, w.results[j]
}

func (w *work) trace(m trace.Market) *trace.Trace {
	w.mu.Lock()
	make := w.traces[m]
	w.mu.Unlock()
	return make()
}
