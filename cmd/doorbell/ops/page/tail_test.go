package page

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"doorbell/events"
)

// paper takes what is streamed, and can be read meanwhile.
type paper struct {
	*httptest.ResponseRecorder
	mu sync.Mutex
}

func (p *paper) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ResponseRecorder.Write(text)
}

func (p *paper) String() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.Body.String()
}

// streamed begins a stream in a bubble, and returns what was sent so far.
func streamed(t *testing.T, o Options, last string) (sent func() string, leave func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &paper{ResponseRecorder: httptest.NewRecorder()}
	r := httptest.NewRequest(http.MethodGet, "/events", nil).WithContext(ctx)
	r.Header.Set("Last-Event-ID", last)
	done := make(chan struct{})
	go func() {
		Handler(o).ServeHTTP(w, r)
		close(done)
	}()
	return func() string { synctest.Wait(); return w.String() }, func() { cancel(); <-done }
}

func TestAReaderGetsTheNewestEventsAndEachOfThoseThatFollowOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := someEvents(time.Now(), 5)
		o := Options{Recent: func() []events.Event { return list }, After: func(at uint64) ([]events.Event, uint64, error) { return after(list, at) }}
		sent, leave := streamed(t, o, "")
		sent()
		list = append(list, anEvent(6, time.Now()))
		time.Sleep(lookEvery)
		for _, e := range list {
			if n := strings.Count(sent(), fmt.Sprintf("id: %d\n", e.Sequence)); n != 1 {
				t.Errorf("%d was sent %d times", e.Sequence, n)
			}
		}
		leave()
		sent, leave = streamed(t, o, fmt.Sprint(list[4].Sequence))
		if text := sent(); strings.Count(text, "\ndata: ") != 1 || !strings.Contains(text, list[5].ID) {
			t.Errorf("a reader that had all but the last one got %s", text)
		}
		leave()
	})
}

// TestAStreamDoesNotBeginWithAnOldLead: thousands of events may have come since the last one.
func TestAStreamDoesNotBeginWithAnOldLead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := someEvents(time.Now(), 5)
		o := Options{
			Recent: func() []events.Event { return []events.Event{list[0], list[3], list[4]} },
			After:  func(at uint64) ([]events.Event, uint64, error) { return after(list, at) },
		}
		sent, leave := streamed(t, o, "")
		if text := sent(); strings.Count(text, "\nid: ") != 2 || !strings.Contains(text, "id: 4\n") {
			t.Errorf("it sent %s", text)
		}
		leave()
	})
}

func TestAQuietStreamBeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sent, leave := streamed(t, of(busyScene(now)), "1000")
		before := sent()
		time.Sleep((beatEvery + 1) * lookEvery)
		if beat := strings.TrimPrefix(sent(), before); beat != ": \n\n" {
			t.Errorf("it said %q", beat)
		}
		leave()
	})
}

func TestReadersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := Handler(of(busyScene(now)))
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		for range mostReaders {
			go h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/events", nil).WithContext(ctx))
		}
		synctest.Wait()
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/events", nil))
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
			t.Errorf("one more got %d", w.Code)
		}
		leave()
		synctest.Wait()
		again, end := context.WithCancel(t.Context())
		w = httptest.NewRecorder()
		go h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/events", nil).WithContext(again))
		synctest.Wait()
		if w.Code != http.StatusOK {
			t.Errorf("after all had left one got %d", w.Code)
		}
		end()
		synctest.Wait()
	})
}

func TestEventsArriveOverHTTPWhenTheyHappen(t *testing.T) {
	server := httptest.NewServer(Handler(of(busyScene(now))))
	defer server.Close()
	answer, err := http.Get(server.URL + "/events")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			if !strings.Contains(data, fmt.Sprintf("%q:%q", "id", someEvents(now, 40)[0].ID)) || answer.Header.Get("Content-Type") != "text/event-stream" {
				t.Errorf("%s, %s", answer.Header.Get("Content-Type"), data)
			}
			return
		}
	}
	t.Errorf("the stream ended: %v", lines.Err())
}

func TestWhatIsOverIsNotColouredLikeTrouble(t *testing.T) {
	for name, want := range map[events.Type]string{
		events.TypeAccessHalted: "access", events.TypeAccessResumed: "access over", events.TypeWatchStale: "watch", events.TypeWatchRecovered: "watch over",
		events.TypeWatchBaselined: "watch over", events.TypeContactRequestCreated: "contact_request",
	} {
		if got := group(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}
