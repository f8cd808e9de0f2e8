package listings

import (
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

func TestARecordIsReadAsOnItsOwnWhateverStoodBeforeIt(t *testing.T) {
	records := []string{
		`{"id":1,"createdAt":"x","a":[1,{"b":2}]}`, `{"id":2,"createdAt":"y","a":null}`, `{"createdAt":"y","id":2,"a":0}`, `{"id":3,"createdAt":"z"}`,
		`{"id":4,"createdAt":"z","a":5,"b":6}`, `{}`, `{"id":7,"id":8,"createdAt":9}`, `{"id":7,"id":8,"createdAt":1}`, `{"\u0069d":1}`, `{"\u0069d":2}`,
		`{"ä":1}`, `{"ä":2}`, `{ "id" : 1 , "created_at" : 2 }`, `{"id":1,"created_at":3}`, `[1]`, `null`, `{"id":"\"}","createdAt":"","a":"{"}`,
	}
	for _, before := range records {
		for _, record := range records {
			var like form
			like.parse(jsontext.Value(before))
			like.parse(jsontext.Value(before))
			got, want := like.parse(jsontext.Value(record)), parse(jsontext.Value(record))
			if len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
				t.Errorf("%s after %s: %v", record, before, got)
			}
		}
	}
}

func TestNamesOfOneStyleAreTheSame(t *testing.T) {
	names := []string{"createdAt", "created_at", "created-at", "CREATED AT", "createdat", "created", "createdAtt", "", "_", "- ", "a", "_a", "A_", "ä", "Ä", "\xff"}
	for _, a := range names {
		for _, b := range names {
			if got := SameName(a, b); got != (plain(a) == plain(b)) {
				t.Errorf("%q and %q: %t", a, b, got)
			}
		}
	}
}

func TestWhatIsKeptOfAPageIsBoundedByItsBytes(t *testing.T) {
	record := `{"score":1`
	for n := range 400 {
		record += fmt.Sprintf(`,"%x":1`, n)
	}
	body := "[" + record + "}" + strings.Repeat(","+record+"}", 599) + "]"
	before := heap()
	page, err := decodeContactRequests(t, body)
	if err != nil || len(page.ContactRequests) != 600 || len(page.ContactRequests[599].Fields()) != 256 {
		t.Fatal(err)
	}
	if held := heap() - before; held > 4*int64(len(body)) {
		t.Errorf("of %d bytes %d are held", len(body), held)
	}
	runtime.KeepAlive(page)
}

// heap is how many bytes are in use.
func heap() int64 {
	runtime.GC()
	runtime.GC() // what pools hold goes with the second
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
