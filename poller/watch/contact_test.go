package watch

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"doorbell/events"
	"doorbell/poller/listings"
	"doorbell/schemas/schematest"
	"doorbell/store"
)

const reference = "a#b##"

var contactRules = NewRules(nil, nil, listings.IDFields)

// lead is a contact request with this record, in JSON. Its creation time is that of createdAt.
func lead(record string) listings.ContactRequest {
	r := listings.ContactRequest{Record: json.RawMessage(record), CreatedForm: listings.FormOffset}
	var o struct {
		CreatedAt time.Time `json:"createdAt"`
	}
	_ = json.Unmarshal(r.Record, &o)
	r.CreatedAt = o.CreatedAt.UTC()
	return r
}

// person is a contact request with an id, made at a minute after epoch.
func person(id any, minute int, name, message string) listings.ContactRequest {
	record, _ := json.Marshal(map[string]any{
		"id": id, "createdAt": epoch.Add(time.Duration(minute) * time.Minute).Format(time.RFC3339),
		"lastName": name, "email": strings.ToLower(name) + "-zq7@example.org", "message": message,
	})
	return lead(string(record))
}

// memory is what is remembered of one insertion, and the poll that looks at it.
type memory struct {
	Prior
	poll Poll
	at   time.Time
}

func newMemory() *memory {
	return &memory{
		Prior: Prior{Record: func() []byte { return nil }, Insertion: store.Insertion{Reference: reference, Start: epoch.Add(-time.Hour)}}, at: epoch.Add(24 * time.Hour),
		poll: Poll{AgencyID: "A100", Rules: contactRules, Apart: 2 * time.Minute, HoldFor: 30 * time.Minute, Longest: 100},
	}
}

// see judges a response of the newest ones and remembers what it changes.
func (m *memory) see(requests ...listings.ContactRequest) Judged {
	slices.SortStableFunc(requests, func(a, b listings.ContactRequest) int { return b.CreatedAt.Compare(a.CreatedAt) })
	return m.judge(NewWindow(), Response{Question: Ask("createdAt", "desc", 100), Requests: requests, Total: -1, List: true})
}

func (m *memory) judge(w *Window, r Response) Judged {
	m.at = m.at.Add(time.Minute)
	j := Judge(m.poll, w, m.Prior, r, m.at)
	for _, put := range j.Contacts {
		if n := slices.IndexFunc(m.Known, func(k store.ContactRequest) bool { return k.ID == put.ID }); n >= 0 {
			m.Known = slices.Clone(m.Known)
			m.Known[n] = put
		} else {
			m.Known = append(slices.Clip(m.Known), put)
		}
	}
	slices.SortFunc(m.Known, func(a, b store.ContactRequest) int { return strings.Compare(a.ID, b.ID) }) // as the store lists them
	if len(j.Insertions) > 0 {
		m.Insertion = j.Insertions[0]
	}
	if j.State != nil {
		m.State = *j.State
	}
	return j
}

// said lists the events of a response in short, sorted: what happened to which id.
func said(t interface {
	Helper()
	Fatal(...any)
}, j Judged,
) (all []string) {
	t.Helper()
	for _, p := range j.Events {
		e, err := events.New(p)
		if err != nil {
			t.Fatal(err)
		}
		if err := schematest.Check(string(e.Type), e.Data); err != nil {
			t.Fatal(err)
		}
		var body struct {
			ContactRequestID string
			Defects          []string
		}
		_ = json.Unmarshal(e.Data, &body)
		_, what, _ := strings.Cut(string(e.Type), ".")
		line := strings.TrimSpace(what + " " + body.ContactRequestID)
		if body.Defects != nil {
			line += fmt.Sprint(" ", body.Defects)
		}
		all = append(all, line)
	}
	slices.Sort(all)
	return all
}

func wants(t *testing.T, j Judged, want ...string) {
	t.Helper()
	if got := said(t, j); !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

func TestAnIdCountsOnlyForOnePerson(t *testing.T) {
	anna, bruno := person(7, 1, "Anna", "Is it free?"), person(7, 9, "Bruno", "May I come?")
	for name, c := range map[string]struct {
		second listings.ContactRequest
		want   []string
	}{
		"the same again":                    {anna, nil},
		"given again":                       {bruno, []string{"created 7"}},
		"given again a quarter later":       {person(7, 16, "Bruno", "May I come?"), []string{"created 7"}},
		"the same second, other content":    {person(7, 1, "Anna", "Is it still free?"), []string{"changed 7"}},
		"the same content, an hour apart":   {person(7, 61, "Anna", "Is it free?"), []string{"changed 7"}},
		"as a text":                         {person("7", 1, "Anna", "Is it free?"), nil},
		"without a time":                    {lead(`{"id":7,"lastName":"Anna","message":"Anything"}`), []string{"changed 7"}},
		"another id and the same content":   {person(8, 1, "Anna", "Is it free?"), nil},
		"another id and the same second":    {person(8, 1, "Anna", "Is it still free?"), []string{"changed 7"}},
		"another id, second and content":    {person(8, 9, "Bruno", "May I come?"), []string{"created 8"}},
		"the same in milliseconds, no more": {lead(`{"id":"x","createdAt":"` + epoch.Add(time.Minute+250*time.Millisecond).Format(time.RFC3339Nano) + `","lastName":"Anna","email":"anna-zq7@example.org","message":"Is it free?"}`), []string{"changed 7"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMemory()
			wants(t, m.see(anna), "created 7")
			wants(t, m.see(c.second), c.want...)
			wants(t, m.see(c.second))
			if len(c.want) == 1 && c.want[0] == "created 7" {
				wants(t, m.see(anna)) // a cache shows the one before
				wants(t, m.see(c.second))
			}
		})
	}
}

func TestEventsNameTheDefectsOfTheirRecordAlone(t *testing.T) {
	m, good := newMemory(), person(2, 2, "Bruno", "x")
	spoilt := func(message string) listings.ContactRequest {
		r := person(1, 1, "Anna", message)
		r.Defects = []string{listings.DefectUTF8}
		return r
	}
	wants(t, m.see(spoilt("x"), good), "created 1 [invalid_utf8]", "created 2")
	wants(t, m.see(spoilt("y"), good), "changed 1 [invalid_utf8]")
	wants(t, m.see(person(1, 1, "Anna", "z"), good), "changed 1") // mended
}

func TestAReusedIdBelongsToThePersonWhoseContentIsShown(t *testing.T) {
	m := newMemory()
	wants(t, m.see(person(7, 1, "Anna", "Is it free?")), "created 7")
	wants(t, m.see(person(7, 9, "Bruno", "May I come?")), "created 7")
	anna := m.Known[0]
	m.see(lead(`{"id":7,"lastName":"Bruno","email":"bruno-zq7@example.org","message":"May I come?"}`))
	if len(m.Known) != 2 || !reflect.DeepEqual(m.Known[0], anna) {
		t.Errorf("the one of %v has changed: %+v", anna.CreatedAt, m.Known)
	}
}

// TestRowNumbersSwallowNothingBesideAChange has rows without times, of which one is changed when
// another one comes.
func TestRowNumbersSwallowNothingBesideAChange(t *testing.T) {
	row := func(id int, name, status string) listings.ContactRequest {
		return lead(fmt.Sprintf(`{"id":%d,"lastName":%q,"message":"x","status":%q}`, id, name, status))
	}
	m := newMemory()
	m.see(row(1, "Anna", "NEW"))
	created := 0
	for _, p := range m.see(row(1, "Bruno", "NEW"), row(2, "Anna", "READ")).Events {
		if c, is := p.(*events.ContactRequestCreated); is && c.Contact.LastName == "Bruno" {
			created++
		}
	}
	if created != 1 {
		t.Errorf("the new one is announced %d times", created)
	}
}

// TestTwoRequestsOfOneSecondAreToldApart has requests that their second alone cannot distinguish.
func TestTwoRequestsOfOneSecondAreToldApart(t *testing.T) {
	m := newMemory()
	wants(t, m.see(person(1, 1, "Anna", "x"), person(2, 1, "Bruno", "y")), "created 1", "created 2")
	wants(t, m.see(person(1, 1, "Anna", "x2"), person(2, 1, "Bruno", "y2")), "changed 1", "changed 2") // by id and second
	wants(t, m.see(person(3, 1, "Anna", "x2"), person(4, 1, "Bruno", "y2")))                           // by content
	wants(t, m.see(person(3, 1, "Carla", "z"), person(4, 1, "Dario", "z")), "created 3", "created 4")
}

func TestTheIdIsTheFirstCandidateThatIsDistinct(t *testing.T) {
	two := func(template string) []listings.ContactRequest {
		var list []listings.ContactRequest
		for n := range 2 {
			list = append(list, lead(strings.NewReplacer("N", fmt.Sprint(n)).Replace(template)))
		}
		return list
	}
	const rest = `"createdAt":"2026-11-20T09:4N:07Z","lastName":"PN"`
	for template, want := range map[string][]string{
		`{"id":4001,"requestId":"rN",` + rest + `}`:     {"created r0", "created r1"},
		`{"leadId":"lN",` + rest + `}`:                  {"created l0", "created l1"},
		`{"metadata":{"inquiry_id":"iN"},` + rest + `}`: {"created i0", "created i1"},
		`{"id":"","uuid":"uN",` + rest + `}`:            {"created u0", "created u1"},
	} {
		m := newMemory()
		wants(t, m.see(two(template)...), want...)
	}
	for name := range strings.FieldsSeq("id contactRequestId requestId leadId inquiryId enquiryId messageId uuid _id") {
		twice := two(`{"` + name + `":"tN","createdAt":"2026-11-20T09:41:07Z","message":"a double click"}`)
		m := newMemory()
		wants(t, m.see(twice...), "created t0", "created t1")
		wants(t, m.see(twice...))
	}
	m := newMemory()
	for _, e := range m.see(two(`{"ticketId":"tN",` + rest + `}`)...).Events {
		if c := e.(*events.ContactRequestCreated); c.Identity != events.IdentityFingerprint || strings.HasPrefix(c.ContactRequestID, "t") {
			t.Errorf("named by a member that is no candidate: %+v", c.ContactRequestID)
		}
	}
}

// TestAMemberThatIsNoCandidateRecognisesWhatRotates has leads of one second whose names and messages change at each reading, and leads
// without a time.
func TestAMemberThatIsNoCandidateRecognisesWhatRotates(t *testing.T) {
	for _, created := range []string{`"createdAt":"2026-11-20T09:41:07Z",`, ``} {
		m := newMemory()
		read := func(turn, n int) (list []listings.ContactRequest) {
			for k := range n {
				list = append(list, lead(fmt.Sprintf(`{"ticketId":"t%d",%s"lastName":"%d-%d","message":"see https://x.example/%d/%d","email":"r%d@x"}`, k, created, turn, k, turn, k, turn)))
			}
			return list
		}
		m.see(read(0, 2)...)
		for turn := range 4 {
			for _, event := range said(t, m.see(read(turn+1, 2)...)) {
				if !strings.HasPrefix(event, "changed") {
					t.Errorf("created %q: %s", created, event)
				}
			}
		}
		if n := len(m.Known); n != 2 {
			t.Errorf("created %q: %d remembered", created, n)
		}
		created := slices.DeleteFunc(said(t, m.see(read(9, 3)...)), func(s string) bool { return strings.HasPrefix(s, "changed") })
		if len(created) != 1 {
			t.Errorf("one more: %v", created)
		}
	}
}

// TestAMemberOfOneAloneTellsNobodyApart has a member called …Ref that says the same of all: of one
// alone it looks distinct.
func TestAMemberOfOneAloneTellsNobodyApart(t *testing.T) {
	of := func(name string) listings.ContactRequest {
		return lead(fmt.Sprintf(`{"importRef":"x","lastName":%q,"message":"y"}`, name))
	}
	m := newMemory()
	for _, list := range [][]listings.ContactRequest{{of("Anna")}, {of("Anna"), of("Bruno")}, {of("Carla")}} {
		if j := m.see(list...); len(j.Events) != 1 || !strings.HasPrefix(said(t, j)[0], "created") {
			t.Errorf("%d shown: %v", len(list), said(t, j))
		}
	}
}

func TestWhereIdentityItselfChangesPlacesAreTakenSilently(t *testing.T) {
	before := func(n int) listings.ContactRequest { return person(n, 10*n, fmt.Sprint("P", n), "x") }
	after := func(n int) listings.ContactRequest { // other ids, times and texts
		return person(fmt.Sprint("u", n), 10*n-3, fmt.Sprint("P", n), "x, sent from my phone")
	}
	var old, now []listings.ContactRequest
	for n := range 4 {
		old, now = append(old, before(n+1)), append(now, after(n+1))
	}
	m := newMemory()
	m.see(slices.Clone(old)...)
	wants(t, m.see(append(slices.Clone(now), person("new", 100, "New", "y"))...), "created new", "schema_drifted")
	wants(t, m.see(append(slices.Clone(now), person("new", 100, "New", "y"))...))

	m = newMemory()
	m.see(slices.Clone(old)...)
	younger := slices.Clone(old[:1])
	for n := range 3 {
		younger = append(younger, person(fmt.Sprint("v", n), 50+n, fmt.Sprint("Q", n), "y"))
	}
	wants(t, m.see(younger...), "created v0", "created v1", "created v2") // three old ones were deleted

	m = newMemory()
	m.see(old[:2]...)
	wants(t, m.see(now[:2]...), "created u1", "created u2") // two are too few

	m = newMemory()
	m.see(slices.Clone(old)...)
	var finer []listings.ContactRequest // the same in milliseconds and with other ids
	for n := range 4 {
		finer = append(finer, lead(strings.Replace(string(person(fmt.Sprint("w", n), 10*(n+1), fmt.Sprint("P", n+1), "x").Record), `:00Z"`, `:00.250Z"`, 1)))
	}
	wants(t, m.see(append(slices.Clone(finer), person("new", 100, "New", "y"))...), "created new", "schema_drifted")
	wants(t, m.see(append(slices.Clone(finer), person("new", 100, "New", "y"))...))
}

// TestAFullListOfOneMomentPushesOthersOut has as many pushed out as came: that is no change of identity.
func TestAFullListOfOneMomentPushesOthersOut(t *testing.T) {
	m := newMemory()
	m.poll.Longest = 12
	list := func(from, n int) (all []listings.ContactRequest) { // as a service imports them: with the moment of the import
		for k := range n {
			all = append(all, person(from+k, 1, fmt.Sprint("P", from+k), "x"))
		}
		return all
	}
	m.see(list(0, 12)...)
	wants(t, m.see(list(3, 12)...), "created 12", "created 13", "created 14")
}

// TestChangedIdsOfAFullListAreNotNewLeads has a list whose last entry may hide a known one of the
// same text behind the end.
func TestChangedIdsOfAFullListAreNotNewLeads(t *testing.T) {
	for _, newID := range []func(n int) any{
		func(n int) any { return fmt.Sprint("u", n) },
		func(n int) any { return n - 1 }, // rows that have moved on
	} {
		m := newMemory()
		m.poll.Longest = 12
		numbered := func(id func(int) any, from, n int) (all []listings.ContactRequest) {
			for k := from; k < from+n; k++ {
				all = append(all, person(id(k), k, fmt.Sprint("P", k), "x"))
			}
			return all
		}
		same := func(n int) any { return n }
		m.see(numbered(same, 0, 12)...)
		wants(t, m.see(numbered(same, 1, 12)...), "created 12")
		wants(t, m.see(numbered(newID, 1, 12)...))
	}
}

// TestTwoOfOneNameHaveTwoEvents has people whom the service gives one id, or whose texts and moments are the same: the second one is
// published under an id that the stream has not taken yet.
func TestTwoOfOneNameHaveTwoEvents(t *testing.T) {
	sameText := func(n int) listings.ContactRequest {
		return lead(fmt.Sprintf(`{"createdAt":"2026-11-20T09:41:07Z","email":"p%d-zq7@example.org","message":"Is it free?"}`, n))
	}
	row := func(id, n int, created string) listings.ContactRequest {
		return lead(fmt.Sprintf(`{"id":%d,%s"email":"p%d-zq7@example.org","lastName":"P%d"}`, id, created, n, n))
	}
	responses := map[string][][]listings.ContactRequest{"rows without times": nil, "rows of one minute": nil}
	for n := range 6 {
		var texts, untimed, timed []listings.ContactRequest
		for k := range n + 1 {
			texts = append(texts, sameText(k))
			untimed = append(untimed, row(n-k, k, ""))
			timed = append(timed, row(n-k, k, `"createdAt":"2026-11-20T09:41:00Z",`))
		}
		responses["texts"] = append(responses["texts"], texts)
		responses["rows without times"] = append(responses["rows without times"], untimed)
		responses["rows of one minute"] = append(responses["rows of one minute"], timed)
	}
	responses["texts of one response"] = responses["texts"][5:]
	for name, list := range responses {
		m, people, ids := newMemory(), map[string]int{}, map[string]bool{}
		for _, response := range append(list, list[len(list)-1]) {
			for _, p := range m.see(response...).Events {
				created, is := p.(*events.ContactRequestCreated)
				if !is {
					continue
				}
				e, err := events.New(p)
				if err != nil {
					t.Fatal(err)
				}
				people[created.Contact.Email]++
				ids[e.ID] = true
			}
		}
		if len(people) != 6 || len(ids) != 6 || len(m.Known) != 6 {
			t.Errorf("%s: %d people, %d events, %d remembered", name, len(people), len(ids), len(m.Known))
		}
		for who, n := range people {
			if n != 1 {
				t.Errorf("%s: %s is announced %d times", name, who, n)
			}
		}
	}
}

// emptied are contact requests, of the first of which the people are gone.
func emptied(emptied, of int) (list []listings.ContactRequest) {
	for n := range of {
		contact := fmt.Sprintf(`{"email":"p%d-zq7@example.org"}`, n)
		if n < emptied {
			contact = "null"
		}
		list = append(list, lead(fmt.Sprintf(`{"id":%d,"createdAt":"2026-11-20T09:41:%02dZ","contact":%s}`, n, n, contact)))
	}
	return list
}

func TestMostPeopleOfAResponseAreNotRedactedByAFailureBehindIt(t *testing.T) {
	read := emptied
	for _, c := range []struct{ emptied, of, within int }{{1, 1, 3}, {2, 2, 3}, {3, 6, 3}, {3, 3, 31}, {4, 7, 31}} {
		m := newMemory()
		m.see(read(0, c.of)...)
		for minute := range 40 {
			j := m.see(read(c.emptied, c.of)...)
			events := said(t, j)
			redactions := slices.DeleteFunc(slices.Clone(events), func(e string) bool { return !strings.HasPrefix(e, "redacted ") })
			if held := c.within > 3; held && minute == 0 != slices.Contains(events, "change_held") ||
				held && minute == c.within-1 != slices.Contains(events, "recovered") || !held && len(events) > len(redactions) {
				t.Errorf("%d of %d: %v in minute %d", c.emptied, c.of, events, minute+1)
			}
			switch n := len(redactions); {
			case minute == c.within-1 && n != c.emptied:
				t.Errorf("%d of %d: %d redacted in minute %d", c.emptied, c.of, n, minute+1)
			case minute != c.within-1 && n > 0:
				t.Errorf("%d of %d: %d redacted in minute %d", c.emptied, c.of, n, minute+1)
			}
		}
	}
	m := newMemory()
	m.see(read(0, 5)...)
	wants(t, m.see(read(5, 5)...), "change_held")
	wants(t, m.see(read(0, 5)...), "recovered")
	m.at = m.at.Add(time.Hour)
	wants(t, m.see(read(5, 5)...), "change_held")
}

// TestOnlyMembersThatStayEmptyRedactAPerson empties members in one reading, and then for good. An
// older response brings no one back.
func TestOnlyMembersThatStayEmptyRedactAPerson(t *testing.T) {
	read := func(members string) listings.ContactRequest {
		return lead(`{"id":1,"createdAt":"2026-11-20T09:41:07Z",` + members + `}`)
	}
	whole := read(`"contact":{"email":"p-zq7@example.org"},"lastName":"A","message":"x"`)
	for members, want := range map[string]string{
		`"contact":null,"lastName":"A","message":"x"`:             "4 redacted 1",
		`"contact":{},"lastName":"A","message":"x"`:               "4 redacted 1",
		`"contact":{"email":null},"lastName":null,"message":null`: "4 redacted 1",
		`"contact":{"email":""},"lastName":"","message":""`:       "4 redacted 1",
		`"contact":{"email":null},"lastName":"","message":"x"`:    "4 redacted 1",
		`"lastName":"A","message":"x"`:                            "0 changed 1, 1 changed 1, 2 changed 1, 5 changed 1",
	} {
		m, now := newMemory(), read(members)
		m.see(whole)
		var got []string
		for n, r := range []listings.ContactRequest{now, whole, now, now, now, whole} {
			for _, event := range said(t, m.see(r)) {
				got = append(got, fmt.Sprint(n, " ", event))
			}
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("%s: %v", members, got)
		}
	}
}

// leads draws contact requests: few different times, so that many are equal.
func leads(rt *rapid.T, n int) []listings.ContactRequest {
	list := make([]listings.ContactRequest, n)
	for i := range list {
		list[i] = person(fmt.Sprint("c", i), -rapid.IntRange(0, n).Draw(rt, "age"), fmt.Sprint("P", i), "x")
	}
	slices.SortStableFunc(list, func(a, b listings.ContactRequest) int { return b.CreatedAt.Compare(a.CreatedAt) })
	return list
}

func TestTheOrderOfAResponseDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		list := leads(rt, rapid.IntRange(0, 12).Draw(rt, "n"))
		other := rapid.Permutation(list).Draw(rt, "order")
		one, two := newMemory(), newMemory()
		for _, m := range []*memory{one, two} {
			m.Insertion.Start = epoch.Add(-6 * time.Minute)
		}
		r := Response{Question: Ask("score", "desc", 100), Total: -1, List: true}
		r.Requests = list
		want := said(rt, one.judge(NewWindow(), r))
		r.Requests = other
		if got := said(rt, two.judge(NewWindow(), r)); !slices.Equal(got, want) {
			rt.Errorf("%v, in another order %v", want, got)
		}
		byID := func(a, b store.ContactRequest) int { return cmp.Compare(a.ID, b.ID) }
		slices.SortFunc(one.Known, byID)
		slices.SortFunc(two.Known, byID)
		if !reflect.DeepEqual(one.Known, two.Known) {
			rt.Errorf("remembered %v, in another order %v", one.Known, two.Known)
		}
		if j := one.judge(NewWindow(), r); len(j.Contacts)+len(j.Events) != 0 {
			rt.Errorf("the same response again: %v", said(rt, j))
		}
	})
}

func TestAnIdThatLooksLikeARepeatedOneIsReplaced(t *testing.T) {
	for id, replaced := range map[string]bool{"7~0123456789abcdef": true, "7~0123": false, "~": false} {
		got := boundedID(id)
		if (got != id) != replaced || (store.ContactRequest{ID: got}).Given() != got {
			t.Errorf("%s becomes %s", id, got)
		}
	}
}
