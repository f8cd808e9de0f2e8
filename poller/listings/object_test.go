package listings

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"runtime"
	"slices"
	"strconv"
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
			var like formed
			like.parse(jsontext.Value(before), nil)
			like.parse(jsontext.Value(before), nil)
			got, _ := like.parse(jsontext.Value(record), nil)
			want := parse(jsontext.Value(record))
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

// What one answer says of the form of records is used for the next one, whosever it is.
func TestTheFormOfAnAnswerHoldsNothingThatWasSaid(t *testing.T) {
	c := bare(t)
	long := `{"createdAt":1,` + manyMembers(mostRoom) + `}`
	for _, records := range []string{
		`{"createdAt":"x","email":"n@example.org"}`, `{"createdAt":"y","email":"m@example.org"},{"createdAt":1,"email":2}`, `{"email":"y","createdAt":"m"}`,
		`{"createdAt":1,"email":2,"a":3},{"createdAt":1}`, `{"createdAt":1,"createdAt":2}`, `{"createdAt":3,"a":2}`, long, `{"createdAt":1,"b":"` + strings.Repeat("x", largestBuffer) + `"}`,
	} {
		page, err := fuzzContactRequests(c, []byte("["+records+"]"), Shape{Known: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range page.ContactRequests {
			if !reflect.DeepEqual(r.object(), parse(jsontext.Value(r.Record))) {
				t.Errorf("%.40s: %.200v", r.Record, r.object())
			}
		}
		if kept := c.form.Load(); len(kept.places) > mostRoom || slices.ContainsFunc(kept.sorted, func(f field) bool { return f.value != nil }) {
			t.Errorf("%d members are kept of %.40s", len(kept.places), records)
		}
	}
	if kept := c.form.Load(); len(kept.places) != 2 || kept.sorted[0].name != "a" {
		t.Errorf("%v", kept)
	}
}

func TestARecordThatIsKeptStaysAsItIs(t *testing.T) {
	like := formed{left: 3 * mostRoom}
	var kept []object
	for n := range 3 * mostRoom {
		o, plain := like.parse(fmt.Appendf(nil, `{"id":%d,"createdAt":"x","a":%d}`, n, n/2), nil)
		if like.keep(o); !plain {
			t.Fatal("names that are not plain")
		}
		kept = append(kept, o)
		like.parse(jsontext.Value(`{"id":0,"createdAt":"y","a":-1}`), nil)
	}
	for n, o := range kept {
		if got := fmt.Sprintf("%s %s", o.get("id"), o.get("a")); got != fmt.Sprint(n, " ", n/2) {
			t.Fatalf("%d has become %s", n, got)
		}
	}
}

func TestAFormWithoutEndTakesNoMoreRoomThanItsRecord(t *testing.T) {
	like := formed{left: maxRecords}
	long := []byte(`{"id":1`)
	for n := range 4 * mostRoom {
		long = fmt.Appendf(long, `,"%d":1`, n)
	}
	long = append(long, '}')
	for range 3 {
		o, _ := like.parse(long, nil)
		like.keep(o)
	}
	if cap(like.room) > 5*mostRoom {
		t.Errorf("room for %d members", len(like.room))
	}
}

func TestWhatIsKeptOfAPageIsBoundedByItsBytes(t *testing.T) {
	record := `{"score":1`
	for n := range 400 {
		record += fmt.Sprintf(`,"%x":1`, n)
	}
	body := "[" + record + "}" + strings.Repeat(","+record+"}", 599) + "]"
	for _, shape := range []Shape{{}, {Known: true}} {
		before := heap()
		page, err := fuzzContactRequests(bare(t), []byte(body), shape)
		if err != nil || len(page.ContactRequests) != 600 || len(page.ContactRequests[599].Fields()) != 256 {
			t.Fatal(err)
		}
		if held := heap() - before; held > 4*int64(len(body)) {
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

// parse makes all names of an object in one piece; here each is made alone.
func TestTheNamesOfAnObjectAreThoseOfItsMembers(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	parts := []string{"property", "Reference", "ID", "_", "-", " ", `\u00fc`, `\n`, `\"`, "ü", "\xff", `\ud800`, strings.Repeat("long", 200)}
	for range 2000 {
		raw := []byte("{")
		var want object
		for n := range random.IntN(40) {
			if n > 0 {
				raw = append(raw, ',')
			}
			quoted := []byte(`"`)
			for range random.IntN(4) {
				quoted = append(quoted, parts[random.IntN(len(parts))]...)
			}
			quoted = append(quoted, '"')
			value := strconv.Itoa(n)
			raw = append(append(append(raw, quoted...), ':'), value...)
			name := memberText(quoted)
			want = append(want, field{name, plain(name), jsontext.Value(value)})
		}
		raw = append(raw, '}')
		slices.SortStableFunc(want, func(a, b field) int { return strings.Compare(a.name, b.name) })
		got := parse(raw)
		if !slices.EqualFunc(got, want, func(a, b field) bool {
			return a.name == b.name && a.plain == b.plain && string(a.value) == string(b.value)
		}) {
			t.Fatalf("of %q", raw)
		}
	}
}
