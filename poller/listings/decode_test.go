package listings

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

func TestWhatIsKeptOfAPageIsBoundedByItsBytes(t *testing.T) {
	record := `{"score":1`
	for n := range 400 {
		record += fmt.Sprintf(`,"%x":1`, n)
	}
	body := "[" + record + "}" + strings.Repeat(","+record+"}", 599) + "]"
	for _, shape := range []Place{{}, {Known: true}} {
		before := heap()
		page, err := fuzzContactRequests(bare(t), []byte(body), shape)
		if err != nil || len(page.ContactRequests) != 600 || page.ContactRequests[599].Record == nil {
			t.Fatal(err)
		}
		if held := heap() - before; held > 10*int64(len(body)) {
			t.Errorf("of %d bytes %d are held", len(body), held)
		}
		runtime.KeepAlive(page)
	}
}

// heap is how many bytes are in use.
func heap() int64 {
	runtime.GC()
	runtime.GC() // what pools hold goes with the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestABodyOfEndlessValuesIsDrift(t *testing.T) {
	for body, want := range map[string]string{
		"[" + strings.Repeat("0,", maxValues-2) + "0]": "",
		"[" + strings.Repeat("0,", maxValues-1) + "0]": "more values than fit any page",
		"[" + strings.Repeat("[],", maxValues) + "0]":  "more values than fit any page",
		strings.Repeat("[", 1<<20):                     "no JSON at byte 10000",
		`{"a":` + strings.Repeat(`{"a":`, 9999) + "1":  "JSON that is cut off after 50001 bytes",
	} {
		if _, wrong := decode([]byte(body)); wrong != want {
			t.Errorf("%.20s…: %q, want %q", body, wrong, want)
		}
	}
}
