package listings

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
)

var digestIgnore = [][]string{{"views"}, {"stats", "seen"}, {"list", "1"}, {"a/b"}, {"list", "0", "x"}}

func TestMostRecordsAreDigestedQuickly(t *testing.T) {
	for _, record := range []string{
		`{}`, `{"b":1,"a":[1.50,-0,{"y":"ü\n","x":null}],"views":7,"stats":{"seen":true,"z":[]}}`, `[1,2]`, `"x"`, `{"list":[{"x":1,"y":2},3,4]}`,
	} {
		quick, ok := quickDigest([]byte(record), digestIgnore, false)
		if slow, err := slowDigest([]byte(record), digestIgnore); !ok || err != nil || quick != slow {
			t.Errorf("%s: quick %t, slow %v", record, ok, err)
		}
	}
}

// FuzzQuickDigest holds the quick digest against the slow one: where it says something, it says the same. There is nothing to
// mend in such a record.
func FuzzQuickDigest(f *testing.F) {
	for _, s := range []string{
		`{"b":1,"a":"\u000a","ä":2,"A":3}`, `{"a":1,"a":2}`, `{"a":"\/"}`, `{"a":01}`, `{"a":1e5}`, `{"a" :1}`, "{\"a\":\"\xff\"}", `{"a":"\ud800"}`, `{"list":[1,2,[{"stats":{"seen":1}}]]}`,
		`{"views":01}`, `{"a":{"b":{}},"stats":{"seen":1,"seen":2}}`, `[]`, `{"a":-}`, "{\"a\":\"\x7f\u2028<&>\"}", `{"score":1,"a":{"SCORE":2,"b":{"score":3}},"c":[{"score":4}]}`,
		strings.Repeat(`{"a":`, 65) + `1` + strings.Repeat(`}`, 65), strings.Repeat(`{"a":`, 64) + `1` + strings.Repeat(`}`, 64),
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, record []byte) {
		quick, ok := quickDigest(record, digestIgnore, false)
		if !ok {
			return
		}
		if slow, err := slowDigest(record, digestIgnore); err != nil || slow != quick {
			t.Fatalf("of %q the quick digest is another one: %v", record, err)
		}
		if mended, defects := compact(record); len(defects) > 0 || !bytes.Equal(mended, record) {
			t.Fatalf("%q has a quick digest and %v", record, defects)
		}
	})
}

func TestAQuickDigestIsAnotherOneForWhatCounts(t *testing.T) {
	const record = `{"a":1,"b":["x",2],"c":{"score":7,"d":{"score":8}},"score":9}`
	first, ok := quickDigest([]byte(record), nil, true)
	if !ok {
		t.Fatal("not quick")
	}
	for _, change := range []string{`:1/:2`, `"x",2/2,"x"`, `"d":/"e":`, `8/9`} {
		from, to, _ := strings.Cut(change, "/")
		if other, ok := quickDigest([]byte(strings.Replace(record, from, to, 1)), nil, true); !ok || other == first {
			t.Errorf("%s makes no other digest", change)
		}
	}
	for n := range 3 {
		same := strings.NewReplacer(`"score":7`, fmt.Sprintf(`"S-core":%d`, n), `"score":9`, fmt.Sprintf(`"_SCORE_":"%d"`, n)).Replace(record)
		if other, ok := quickDigest([]byte(same), nil, true); !ok || other != first {
			t.Errorf("a score makes another digest: %s", same)
		}
	}
}

// What was found of a record on the way is no other digest than that of its text, which is compact.
func TestARecordOfAUsualBodyHasTheDigestOfItsText(t *testing.T) {
	records := []string{
		`{"id":1,"createdAt":"2026-11-20T09:41:07Z","b":[1,{"z":1,"y":"\n"}],"a":{"score":1,"x":{"score":2}},"score":3}`, `{"id":1 ,"score":3}`, `{"id":1,"score": 3}`,
		`{"id":1,"score":[1, 2]}`, `{"id":1,"score":{"b":1,"a":{"score":1}}}`, `{"id":1,"score":3,"a":{"c": 1}}`, `{"id":1,"score":3 }`, `{"id":1,"score":[]}`,
		"{\"id\":1,\"score\":3,\"\uffe6\":1,\"\U0001f600\":2}", `{"id":1,"score":3,"a":{"😀":1,"￦":2}}`, "{\"id\":1,\"score\":3,\"\x7f\":1}", `{"sCORE":1,"id":1}`,
	}
	for n, record := range records {
		page, err := fuzzContactRequests(bare(t), fmt.Appendf(nil, `{"data":[%s,%s]}`, records[0], record), Shape{Path: "/data", Known: true})
		if err != nil || len(page.ContactRequests) != 2 {
			t.Fatal(err)
		}
		r := page.ContactRequests[1]
		want, err := Digest([]byte(record), scores([]byte(record)))
		if got, ok := r.ScorelessDigest(nil); ok && got != want || err != nil || n == 0 && !ok {
			t.Errorf("%s: %t, %v", record, ok, err)
		}
		if mended, _ := compact([]byte(record)); !bytes.Equal(r.Record, mended) {
			t.Errorf("%s has become %s", record, r.Record)
		}
	}
}
