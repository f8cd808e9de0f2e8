package listings

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// watching is a client of which some members of insertions are ignored.
func watching(t *testing.T) *Client {
	c := bare(t)
	c.o.IgnoreInsertions = []string{"/views", "/stats/seen", "/stats/shown"}
	return c
}

func listAnswer(body string, known Hashes) *exchange {
	return &exchange{
		request: Request{Operation: OperationInsertions, AgencyID: "A100"}, status: http.StatusOK, body: []byte(body),
		expect: Expect{Shape: Shape{Path: "/data", Known: true}, Hashes: known},
	}
}

// onePage is an API whose every list is this page.
type onePage string

func (p onePage) RoundTrip(r *http.Request) (*http.Response, error) {
	body := string(p)
	if page := r.URL.Query().Get("page"); page != "" && page != "1" {
		body = `{"data":[]}`
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

func TestWhatIsIgnoredIsMarkedOnAKnownPageToo(t *testing.T) {
	const page = `{"data":[{"propertyReferenceId":"a","views":1,"stats":{"seen":1,"x":"\n"}},{"propertyReferenceId":"b","views":1},{"stats":{"x":1},"propertyReferenceId":"c"}]}`
	c := watching(t)
	before, err := c.insertionsPage(listAnswer(page, Hashes{}), 0)
	if err != nil {
		t.Fatal(err)
	}
	for change, want := range map[[2]string]string{
		{`"views":1,`, `"views":2,`}:                      "a/0",
		{`{"seen":1,"x"`, `{"seen":7,"x"`}:                "a/1",
		{`"b","views":1`, `"b","views":3`}:                "b/0",
		{`"seen":1,"x":"\n"`, `"x":"\u000a", "seen" : 1`}: "", // as it was
		{`"stats":{"x":1}`, `"stats" : { "x" : 1 }`}:      "", // as it was
		{`"x":"\n"`, `"x":"\r"`}:                          "other",
	} {
		c.o.Transport = onePage(strings.Replace(page, change[0], change[1], 1))
		w := c.Walk(NewKey("00000000-0000-4000-8000-000000000000"), "A100", WalkOptions{
			Shape: Shape{Path: "/data", Known: true},
			Known: func(h Hashes) *KnownPage {
				if before.Hashes.Is(h) {
					return &KnownPage{Path: "/data", References: []string{"a", "b", "c"}}
				}
				return nil
			},
		})
		changed := "nothing read"
		for now, err := range w.Pages(context.Background()) {
			if err != nil {
				t.Fatal(err)
			}
			changed = ""
			for n, i := range now.Insertions {
				for m := range i.Marks {
					if i.Marks[m] != before.Insertions[n].Marks[m] {
						changed += fmt.Sprintf("%s/%d", i.Reference, m)
					}
				}
			}
			if want == "other" && !now.Same {
				changed = "other"
			}
			break
		}
		if changed != want {
			t.Errorf("%s for %s: changed %q, want %q", change[1], change[0], changed, want)
		}
	}
}

func TestAMarkTellsWhetherAMemberIsThere(t *testing.T) {
	page, err := watching(t).insertionsPage(listAnswer(`{"data":[{"propertyReferenceId":"a","views":null}]}`, Hashes{}), 0)
	if err != nil {
		t.Fatal(err)
	}
	if m := page.Insertions[0].Marks; len(m) != 2 || m[0] <= MarkAbsent || m[1] != MarkAbsent {
		t.Errorf("marks %v", m)
	}
}

func TestOnlyTheFirstMembersAreWatched(t *testing.T) {
	var all []string
	for n := range 40 {
		all = append(all, fmt.Sprintf("/m~1%d/x", n/2))
	}
	if got := Watched(all); len(got) != 16 || got[3] != "m/3" {
		t.Errorf("watched: %q", got)
	}
	if got := Watched([]string{""}); len(got) != 0 {
		t.Errorf("of the whole record: %q", got)
	}
}

// FuzzMarks holds the marks of a page that is known again against those of decoding it, and what is known against what is
// told: its digests and references.
func FuzzMarks(f *testing.F) {
	f.Add(`{"data":[{"propertyReferenceId":"a","views":1,"stats":{"seen":1,"x":2}}],"at":1}`, `{"at":2,"data":[{"stats":{"x":2,"seen":9},"views":3,"propertyReferenceId":"a"}]}`)
	f.Add(`{"data":[{"propertyReferenceId":"a","stats":{"a\n":["x\u0061"]}}]}`, `{"data":[{"propertyReferenceId":"a","stats":{"a\n":["xa"]}}]}`)
	f.Add(`{"data":[{"propertyReferenceId":"a","views":1},{"views":1}]}`, `{"data":[{"propertyReferenceId":"a","views":2},{"views":1}]}`)
	f.Fuzz(func(t *testing.T, first, second string) {
		c := watching(t)
		before, err := c.insertionsPage(listAnswer(first, Hashes{}), 0)
		if err != nil || before.Unreadable > 0 {
			return
		}
		quick, err := c.insertionsPage(listAnswer(second, before.Hashes), 0)
		if err != nil || !quick.Same {
			return
		}
		slow, err := c.insertionsPage(listAnswer(second, Hashes{}), 0)
		if err != nil || len(slow.Insertions) != len(before.Insertions) || slow.Total != before.Total || slow.Path != before.Path {
			t.Fatalf("taken for the same, and is not: %v", err)
		}
		quick.Insertions = make([]Insertion, len(slow.Insertions))
		quick.shareMarks()
		for n, now := range slow.Insertions {
			was := before.Insertions[n]
			digest, _ := Digest(now.Record, c.o.IgnoreInsertions)
			if old, _ := Digest(was.Record, c.o.IgnoreInsertions); old != digest || was.Reference != now.Reference {
				t.Fatal("an insertion reads otherwise")
			}
			marks := quick.Insertions[n].Marks
			if marks == nil && first == second {
				marks = was.Marks // nobody had to look
			}
			if !slices.Equal(marks, now.Marks) {
				t.Fatalf("marks %v, decoded %v", marks, now.Marks)
			}
		}
	})
}

func TestAnAnswerFullOfEmptyRecordsTakesNoMoreRoomForItsMarksThanABound(t *testing.T) {
	var ignored []string
	for n := range mostMarks {
		ignored = append(ignored, fmt.Sprintf("/m%d", n))
	}
	s := newSketch("", ignored, IDFields, false)
	body := "[" + strings.Repeat(`{"m1":7},`, mostRoomForMarks/mostMarks) + `{},{"m1":7}]`
	r := s.read([]byte(body))
	if r.content == (Sum{}) || len(r.marks) > mostRoomForMarks {
		t.Errorf("%d marks", len(r.marks))
	}
	page := InsertionsPage{Insertions: make([]Insertion, mostRoomForMarks/mostMarks+2), marks: r.marks}
	page.shareMarks()
	if own := page.Insertions[0].Marks; len(own) == mostMarks {
		t.Error("an insertion has marks, and not all have")
	}
}
