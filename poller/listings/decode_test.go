package listings

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
)

func TestWhatIsKeptOfAPageIsBoundedByItsBytes(t *testing.T) {
	record := `{"score":1`
	for n := range 400 {
		record += fmt.Sprintf(`,"%x":1`, n)
	}
	body := "[" + record + "}" + strings.Repeat(","+record+"}", 599) + "]"
	for _, shape := range []Place{{}, {Known: true}} {
		before := heap()
		page, err := bare(t).contactRequestsPage(asking(OperationContactRequests, shape, body))
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
		"[" + strings.Repeat("0,", maxValues-1) + "0]": "more values than fit on any page",
		"[" + strings.Repeat("[],", maxValues) + "0]":  "more values than fit on any page",
		strings.Repeat("[", 1<<20):                     "invalid JSON at byte 10000",
		`{"a":` + strings.Repeat(`{"a":`, 9999) + "1":  "JSON that is cut off after 50001 bytes",
	} {
		if _, wrong := decode([]byte(body)); wrong != want {
			t.Errorf("%.20s…: %q, want %q", body, wrong, want)
		}
	}
}

// Reading a hostile body takes about as long as decoding it: neither many members and places nor
// long texts multiply with the names that are known, which would take seconds.
func TestReadingHostileTextsIsBounded(t *testing.T) {
	var spellings, members strings.Builder
	for n := range 10_000 {
		spellings.WriteString(`"e` + strings.Repeat("-", n%100) + `mail` + strings.Repeat("_", n/100) + `":7,`)
		fmt.Fprintf(&members, `"m%d":%d,`, n, n)
	}
	for name, body := range map[string]string{
		"arrays":      `{"id":1,` + strings.Repeat(`"a":[{"x":1}],`, 5_000) + `"b":[]}`,
		"objects":     `{"id":1,` + strings.Repeat(`"data":{"x":{}},`, 5_000) + `"b":[]}`,
		"nothing":     `{` + strings.Repeat(`"results":null,`, 5_000) + `"b":[]}`,
		"deep places": `{"a":{"b":{"c":{` + strings.Repeat(`"leads":{},`, 5_000) + `"d":[]}}}}`,
		"spellings":   `[{` + spellings.String() + `"x":1}]`,
		"members":     `[{` + members.String() + `"phone":"079 000 01 23"}]`,
		"addresses":   `[{"email":"` + strings.Repeat("a@,", 1<<18) + `"}]`,
		"brackets":    `[{"email":"` + strings.Repeat("<", 1<<20) + `"}]`,
		"entities":    `[{"name":"` + strings.Repeat("&amp", 1<<18) + `"}]`,
		"phones":      `[{"phone":[` + strings.Repeat(`"1",`, 200_000) + `"1"]}]`,
		"digits":      `[{"phone":"` + strings.Repeat("0", 1<<20) + `","name":"` + strings.Repeat("N", 1<<20) + `"}]`,
		"deep person": `[{"contact":` + strings.Repeat(`{"contact":`, 5000) + `1` + strings.Repeat(`}`, 5001) + `]`,
		"list":        `[{"email":` + strings.Repeat(`[`, 9000) + strings.Repeat(`]`, 9000) + `}]`,
		"time":        `[{"createdAt":"` + strings.Repeat("2026-11-20T", 1<<18) + `"}]`,
		"comment":     `[{"createdAt":"Fri, 20 Nov 2026 10:41:07 +0100 ` + strings.Repeat("(", 1<<18) + `"}]`,
	} {
		decoding := fastest(func() { valueOf(body) })
		reading := fastest(func() {
			page, err := decodeContactRequests(t, body)
			for n := 0; err == nil && n < len(page.ContactRequests); n++ {
				phone := page.ContactRequests[n].Contact().Phone
				if name == "members" && phone != "+41790000123" { // it is found among all the others
					t.Errorf("phone %q", phone)
				}
			}
		})
		if reading > 11*decoding+500*time.Millisecond {
			t.Errorf("%s: decoded in %v, read in %v", name, decoding, reading)
		}
	}
}

func fastest(do func()) time.Duration {
	best := time.Hour
	for range 5 {
		began := time.Now()
		do()
		best = min(best, time.Since(began))
	}
	return best
}
