package poller_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/poller/sandbox"
)

// The tests of field_*_test.go judge the poller as a whole, from outside: they write the API's
// responses byte for byte and read the event log. Each table holds forms of one kind of response
// that APIs of this trade are known to give.

type object = map[string]any

// absent is the value of a member that a record does not have.
var absent = struct{}{}

// portal is an API that a test writes by hand. Without hooks it is an ordinary one: insertions in
// pages, contact requests in the order and number asked for. Hooks run with mu held.
type portal struct {
	w  *world
	mu sync.Mutex

	flats []string
	leads map[string][]*fieldLead // of each flat, in the order in which they were made
	made  int

	pages     int                                         // insertions on a page, where fewer than asked for
	insertion func(flat string, record object)            // changes an insertion's record
	list      func(page int, records []string) fieldReply // writes a page of the list

	questions []question                                              // about contact requests
	refuse    func(flat string, q url.Values) *fieldReply             // in place of all that follows; nil: nothing
	order     func(q url.Values, newestFirst []*fieldLead)            // sorts contact requests
	most      int                                                     // of contact requests in a response; 0: any number
	write     edit                                                    // changes a contact request's record
	respond   func(flat string, all int, records []string) fieldReply // writes a response; all is how many there are
	step      time.Duration                                           // between those that are made together; default a second
	layout    string                                                  // of createdAt; default RFC 3339
	header    func(http.Header)                                       // changes the headers of each response
}

// question is a request for contact requests.
type question struct {
	at                time.Time
	flat, size, order string
}

// fieldLead is a contact request as the portal keeps it.
type fieldLead struct {
	who   string // the surname, by which events are recognised
	id    any    // nil: none
	at    time.Time
	with  object // members besides the usual ones, or in their place
	shown bool
}

type fieldReply struct {
	status int // 0: 200
	body   string
	header http.Header
	delay  time.Duration
	cut    float64 // share of the body after which the connection ends; negative: before the status
}

// inField runs a test with a portal of these flats in place of the sandbox.
func inField(t *testing.T, flats []string, test func(*world, *portal)) {
	t.Helper()
	inWorld(t, sandbox.Options{}, sandbox.Flat(), []string{"A100"}, func(w *world) { test(w, servePortal(w, flats)) })
}

// servePortal connects the world's poller to a portal.
func servePortal(w *world, flats []string) *portal {
	p := &portal{w: w, flats: slices.Clone(flats), leads: map[string][]*fieldLead{}, step: time.Second, layout: time.RFC3339}
	w.serve(p)
	return p
}

func (p *portal) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	a := p.reply(r)
	rw.Header().Set("Content-Type", "application/json")
	maps.Copy(rw.Header(), a.header)
	if p.header != nil {
		p.header(rw.Header())
	}
	p.mu.Unlock()
	select {
	case <-time.After(a.delay):
	case <-r.Context().Done():
	}
	if a.cut < 0 {
		panic(http.ErrAbortHandler)
	}
	if a.cut > 0 {
		rw.Header().Set("Content-Length", strconv.Itoa(len(a.body)))
		a.body = a.body[:int(a.cut*float64(len(a.body)))]
	}
	rw.WriteHeader(cmp.Or(a.status, http.StatusOK))
	if a.body != "" {
		io.WriteString(rw, a.body)
	}
}

func (p *portal) reply(r *http.Request) fieldReply {
	q := r.URL.Query()
	if flat, ok := strings.CutPrefix(r.URL.Path, "/ubm-contact-request/property/"); ok {
		order := q.Get("sortBy") + " " + q.Get("sortOrder")
		p.questions = append(p.questions, question{time.Now(), flat, q.Get("numberOfItemsPerPage"), order})
		if p.refuse != nil {
			if a := p.refuse(flat, q); a != nil {
				return *a
			}
		}
		return p.contactRequests(flat, q)
	}
	page, size := max(1, queried(q, "page")), cmp.Or(p.pages, queried(q, "pageSize"), 20)
	from := min(len(p.flats), (page-1)*size)
	var records []string
	for _, flat := range p.flats[from:min(len(p.flats), from+size)] {
		record := object{"propertyReferenceId": flat, "title": "Wohnung " + flat, "rooms": 3}
		if p.insertion != nil {
			p.insertion(flat, record)
			maps.DeleteFunc(record, func(_ string, v any) bool { return v == absent })
		}
		records = append(records, text(record))
	}
	if p.list != nil {
		return p.list(page, records)
	}
	return fill(`{"results":[$records]}`, records)
}

func (p *portal) contactRequests(flat string, q url.Values) fieldReply {
	list := slices.Clone(p.leads[flat])
	slices.Reverse(list)
	slices.SortStableFunc(list, func(a, b *fieldLead) int { return b.at.Compare(a.at) })
	if p.order == nil {
		asAsked(q, list)
	} else {
		p.order(q, list)
	}
	size := cmp.Or(queried(q, "numberOfItemsPerPage"), 10)
	if p.most > 0 {
		size = min(size, p.most)
	}
	var records []string
	for _, l := range list[:min(size, len(list))] {
		l.shown = true
		record := object{
			"createdAt": l.at.UTC().Format(p.layout), "firstName": "Nora", "lastName": l.who,
			"email": strings.ToLower(l.who) + "@example.org", "message": "Ist die Wohnung noch frei?",
		}
		if l.id != nil {
			record["id"] = l.id
		}
		if p.write != nil {
			p.write(flat, l, record)
		}
		maps.Copy(record, l.with)
		maps.DeleteFunc(record, func(_ string, v any) bool { return v == absent })
		records = append(records, text(record))
	}
	if p.respond != nil {
		return p.respond(flat, len(list), records)
	}
	return fill(`{"contactRequests":[$records]}`, records)
}

// asAsked sorts contact requests, newest first, as the query demands. Equal ones keep their order.
func asAsked(q url.Values, newestFirst []*fieldLead) {
	switch {
	case q.Get("sortBy") == "score":
		slices.SortStableFunc(newestFirst, func(a, b *fieldLead) int { return cmp.Compare(a.who, b.who) })
		if q.Get("sortOrder") == "asc" {
			slices.Reverse(newestFirst)
		}
	case q.Get("sortOrder") == "asc":
		slices.SortStableFunc(newestFirst, func(a, b *fieldLead) int { return a.at.Compare(b.at) })
	}
}

func queried(q url.Values, name string) int {
	n, _ := strconv.Atoi(q.Get(name))
	return n
}

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// fill writes records and their number into a body.
func fill(body string, records []string) fieldReply {
	r := strings.NewReplacer("$records", strings.Join(records, ","), "$n", strconv.Itoa(len(records)))
	return fieldReply{body: r.Replace(body)}
}

// edit changes the record of a contact request.
type edit = func(flat string, l *fieldLead, record object)

func member(name string, value func(*fieldLead) any) edit {
	return func(_ string, l *fieldLead, record object) { record[name] = value(l) }
}

func edits(all ...edit) edit {
	return func(flat string, l *fieldLead, record object) {
		for _, one := range all {
			one(flat, l, record)
		}
	}
}

func numberOf(l *fieldLead) (n int) {
	fmt.Sscanf(fmt.Sprint(l.id), "r-%d", &n)
	return n
}

// flatsNamed are n references.
func flatsNamed(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("a100#%02d##", i+1))
	}
	return all
}

// change changes the portal, or reads of it, between two requests.
func (p *portal) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

// add adds a contact request of an age, with an id of its own.
func (p *portal) add(flat string, age time.Duration, with ...object) *fieldLead {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.made++
	who, id := fmt.Sprintf("Beispiel%03d%s", p.made, sandbox.Marker), fmt.Sprintf("r-%d", 1000+p.made)
	l := &fieldLead{who: who, id: id, at: time.Now().Round(0).Add(-age)}
	for _, more := range with {
		if id, ok := more["id"]; ok {
			l.id = id
		}
		l.with = more
	}
	p.leads[flat] = append(p.leads[flat], l)
	return l
}

// asked is how many requests there were since a moment for the contact requests of a flat.
func (p *portal) asked(flat string, since time.Time) (n int) {
	p.change(func() {
		for _, q := range p.questions {
			if q.flat == flat && !q.at.Before(since) {
				n++
			}
		}
	})
	return n
}

// addMany makes n contact requests, a step apart, the youngest of which has this age.
func (p *portal) addMany(flat string, n int, age time.Duration) (all []*fieldLead) {
	for k := range n {
		all = append(all, p.add(flat, age+time.Duration(n-1-k)*p.step))
	}
	return all
}

// show makes a flat have these contact requests and no others.
func (p *portal) show(flat string, list ...*fieldLead) {
	p.change(func() { p.leads[flat] = list })
}

// log is the log of the portal's only agency.
func (p *portal) log() []told { return p.w.log("A100") }

// created are the announcements, by surname.
func (p *portal) created() map[string][]told {
	all := map[string][]told{}
	for _, e := range p.log() {
		if e.Type == events.TypeContactRequestCreated {
			contact, _ := e.body["contact"].(object)
			who, _ := contact["lastName"].(string)
			all[who] = append(all[who], e)
		}
	}
	return all
}

// mustAnnounce fails unless exactly these contact requests were announced, each once: one event for
// every time that a person is among them, no two with one id.
func (p *portal) mustAnnounce(want ...*fieldLead) {
	p.w.t.Helper()
	got, wanted, people := p.created(), map[string]int{}, map[string]bool{}
	for _, l := range want {
		wanted[l.who]++
		people[l.who] = true
	}
	ids := map[string]bool{}
	for who, all := range got {
		people[who] = true
		for _, e := range all {
			if ids[e.ID] {
				p.w.t.Errorf("two events have the id of one of %s", who)
			}
			ids[e.ID] = true
		}
	}
	var wrong []string
	for _, who := range slices.Sorted(maps.Keys(people)) {
		if n := len(got[who]); n != wanted[who] {
			wrong = append(wrong, fmt.Sprintf("%s %d times instead of %d", who, n, wanted[who]))
		}
	}
	if len(wrong) > 0 {
		p.w.t.Errorf("of %d leads, %d are announced a wrong number of times: %s", len(want), len(wrong), few(wrong))
	}
}

func few(all []string) string {
	if len(all) > 4 {
		return strings.Join(all[:4], ", ") + ", …"
	}
	return strings.Join(all, ", ")
}

// mustCount fails unless the log has n events of a type.
func (p *portal) mustCount(kind events.Type, want int) {
	p.w.t.Helper()
	if got := count(p.log(), kind); got != want {
		p.w.t.Errorf("%d %s, want %d: %s", got, kind, want, p.watch())
	}
}

// mustHaveNo fails if the log has an event of one of these types.
func (p *portal) mustHaveNo(kinds ...events.Type) {
	p.w.t.Helper()
	for _, kind := range kinds {
		p.mustCount(kind, 0)
	}
}

// mustBeCalm fails if the watch reports that something is wrong.
func (p *portal) mustBeCalm() {
	p.w.t.Helper()
	if watch := p.watch(); watch != "" {
		p.w.t.Error(watch)
	}
}

// watch is what the watch reports, in short.
func (p *portal) watch() string {
	var all []string
	for _, e := range p.log() {
		if e.Type != events.TypeWatchBaselined && !strings.HasPrefix(string(e.Type), "insertion.") && !strings.HasPrefix(string(e.Type), "contact_request.") {
			all = append(all, string(e.Type)+" "+summary(e))
		}
	}
	return few(all)
}

// summary shows the members by which an event of the watch differs from others.
func summary(e told) string {
	var all []string
	for _, name := range []string{"reason", "operation", "propertyReferenceId", "change", "expected", "found", "reached", "total"} {
		if v, ok := e.body[name]; ok {
			all = append(all, fmt.Sprintf("%s=%v", name, v))
		}
	}
	return strings.Join(all, " ")
}

// eachForm runs a subtest for every form of a table; with the race detector, which sees the same
// goroutines in each, for some.
func eachForm[F any](t *testing.T, forms map[string]F, test func(*testing.T, F)) {
	for n, name := range slices.Sorted(maps.Keys(forms)) {
		if raced && n%6 != 0 {
			continue
		}
		t.Run(name, func(t *testing.T) { test(t, forms[name]) })
	}
}

// inEachField runs a test with a portal for every form of a table.
func inEachField[F any](t *testing.T, flats []string, forms map[string]F, test func(*world, *portal, F)) {
	eachForm(t, forms, func(t *testing.T, form F) {
		inField(t, flats, func(w *world, p *portal) { test(w, p, form) })
	})
}

// inEachWatchedField is inEachField, watched for five minutes: an old contact request is known at
// the first flat.
func inEachWatchedField[F any](t *testing.T, flats int, forms map[string]F, test func(*world, *portal, F)) {
	eachForm(t, forms, func(t *testing.T, form F) {
		inWatchedField(t, flats, func(w *world, p *portal) { test(w, p, form) })
	})
}
