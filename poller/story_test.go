package poller_test

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/poller"
	"doorbell/poller/sandbox"
	"doorbell/store"
)

//go:embed testdata/stories/*.txt
var storyFiles embed.FS

// The stories are text files, one command a line. A story begins with "== " and a sentence, and may
// name its world: agencies=A100,B200 shape=hal pages=10 (insertions a page) withdrawn=403 (the status of a
// withdrawn insertion's contact requests), announce, no-totals, own-keys (the second agency has a
// key of its own).
//
//	publish REF… [member=VALUE]  withdraw REF…  edit REF… member=VALUE  drop REF… member
//	lead NAME REF… [age=1h] [n=25] [every=1s]   status|score|redact NAME VALUE
//	set poll=10m walk=30m rate=0.4 hold=1m filter=offerType=RENT
//	agencies A100…   these are watched from now on
//	api unlink|link AGENCY, deactivate, add   key old|new   (of the first agency)
//	start  halt  restart  takeover  pass 10m  repeat 40: pass 1m; restart   ($n counts)
//	resume [REF]  approve  poll-now  nudge REF   and perhaps "= WAITS, N of N" or what is wrong
//	fault [SELECTOR…] : RESPONSE    the first one that matches answers; mend removes all
//	in AGENCY    the agency of the following commands, at first the first one
//
// And what must hold:
//
//	want [N] TYPE [member=VALUE…] [& TYPE [member=VALUE…]]   the events since the last block of wants, in
//	                       order; those of a line in any order. Objects are written as Go prints them.
//	                       "want nothing". skip: as if all were wanted
//	count TYPE OP N        in the whole log
//	announced NAME…        exactly these leads are in the logs, each once; "announced none"
//	status field=VALUE
//	mark; asked [SELECTOR…] OP N; commits OP N    the requests that began, and the commits of the store, since the mark
//
// Lines "forms A | B | …" behind the first one run the story once for each form, which is
// written as $form.
//
// a#{1..9}## is nine references. The agency of a reference is the one whose id has the same first
// letter, else the first one. Selectors: list, requests, empty (of a REF without leads), REF, agency=, key=old|new, page=, page>, size>,
// walk=N (since the mark), times=N (the first N), for=20s (from the first on), spreads (after the
// first one to all), even (a#2##, a#4##, …), status= (of asked).
// Responses: a status, delay D, header NAME VALUE (_ is a space), date D (ahead), without REF, beside
// MEMBERS, body TEXT ($walk counts walks).
type story struct {
	*world
	all    []keys
	agency string
	leads  map[string][]string
	cursor map[string]int // how many events of an agency's log were looked at
	file   string
	line   int

	marked  time.Time
	commits int64 // of the store, then

	mu      sync.Mutex
	rules   []*rule
	walks   int             // that began since the mark
	written map[string]bool // references with leads
}

type keys = poller.AgencyKeys

type rule struct {
	selector
	fault *sandbox.Fault
	date  *time.Duration // how far ahead the response's Date is; nil: not at all
	left  int            // times that it still answers; negative: any number
	walk  int            // number of the walk to which alone it answers
	lasts time.Duration
	// spreads makes it respond to everything after the first one
	spreads bool
	first   time.Time
}

type selector struct {
	operation, agency, key, page string
	beyond, larger, status       int // than this page, than this number of contact requests
	even, empty                  bool
	references                   []string
}

func TestStories(t *testing.T) {
	files, err := storyFiles.ReadDir("testdata/stories")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := storyFiles.ReadFile("testdata/stories/" + file.Name())
		if err != nil {
			t.Fatal(err)
		}
		line := 1
		for k, story := range strings.Split(string(text), "\n== ") {
			lines := strings.Split(story, "\n")
			from := line
			if line += len(lines); raced && k%5 != 0 {
				continue
			}
			t.Run(strings.TrimPrefix(lines[0], "== "), func(t *testing.T) { tellForms(t, file.Name(), from, lines[1:]) })
		}
	}
}

// tellForms plays a story in each of its forms; with the race detector, which sees the same
// goroutines in each, in the first one.
func tellForms(t *testing.T, file string, line int, lines []string) {
	var forms []string
	for strings.HasPrefix(lines[0], "forms ") {
		forms = append(forms, strings.Split(strings.TrimPrefix(lines[0], "forms "), " | ")...)
		line, lines = line+1, lines[1:]
	}
	if forms == nil {
		tellStory(t, file, line, lines)
	}
	for n, form := range forms {
		if raced && n > 0 {
			break
		}
		t.Run(form, func(t *testing.T) {
			tellStory(t, file, line, strings.Split(strings.ReplaceAll(strings.Join(lines, "\n"), "$form", form), "\n"))
		})
	}
}

func tellStory(t *testing.T, file string, line int, lines []string) {
	o, r, agencies, announce, ownKeys := sandbox.Options{}, sandbox.Flat(), []string{"A100"}, false, false
	if rest, ok := strings.CutPrefix(lines[0], "world "); ok {
		for word := range strings.FieldsSeq(rest) {
			switch name, value, _ := strings.Cut(word, "="); name {
			case "agencies":
				agencies = strings.Split(value, ",")
			case "pages":
				r = inPages(number(t, value))
			case "withdrawn":
				o.WithdrawnStatus = number(t, value)
			case "shape":
				r, _ = sandbox.RenderingNamed(value)
			case "announce":
				announce = true
			case "no-totals":
				r.NoTotals = true
			case "own-keys":
				ownKeys = true
			default:
				t.Fatalf("%s:%d: world %s", file, line+1, word)
			}
		}
		line, lines = line+1, lines[1:]
	}
	inWorld(t, o, r, agencies, func(w *world) {
		w.options.Announce = announce
		if ownKeys {
			w.model.AddKey(newKey, agencies[1])
			w.options.Agencies[1] = keyed(agencies[1], newKey)
		}
		s := &story{
			world: w, agency: agencies[0], leads: map[string][]string{}, cursor: map[string]int{},
			written: map[string]bool{}, file: file, all: w.options.Agencies,
		}
		w.model.KeepLog()
		w.model.SetFault(s.decide)
		wanting := false
		for n, l := range lines {
			s.line = line + n + 1
			if l = strings.TrimSpace(l); l == "" || strings.HasPrefix(l, "# ") {
				continue
			}
			is := strings.HasPrefix(l, "want ")
			if wanting && !is {
				s.nothingElse()
			}
			wanting = is
			s.do(l)
		}
		if wanting {
			s.nothingElse()
		}
		for name, ids := range s.leads {
			for _, id := range ids {
				if n := s.told()[id]; n > 1 {
					s.errorf("%s was announced %d times", name, n)
				}
			}
		}
	})
}

func number(t *testing.T, text string) int {
	t.Helper()
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (s *story) errorf(format string, args ...any) {
	s.t.Helper()
	s.t.Errorf("%s:%d: %s", s.file, s.line, fmt.Sprintf(format, args...))
}

func (s *story) fatalf(format string, args ...any) {
	s.t.Helper()
	s.t.Fatalf("%s:%d: %s", s.file, s.line, fmt.Sprintf(format, args...))
}

func (s *story) int(text string) int { return number(s.t, text) }

func (s *story) duration(text string) time.Duration {
	d, err := time.ParseDuration(text)
	if err != nil {
		s.fatalf("%v", err)
	}
	return d
}

// owner is the agency of a reference.
func (s *story) owner(reference string) string {
	for _, a := range s.all {
		if strings.HasPrefix(strings.ToLower(a.ID), reference[:1]) {
			return a.ID
		}
	}
	return s.all[0].ID
}

var span = regexp.MustCompile(`\{(\d+)\.\.(\d+)\}`)

// split separates the words of a command: names or references, and members.
func split(words []string) (names []string, members map[string]string) {
	members = map[string]string{}
	for _, word := range words {
		if name, value, ok := strings.Cut(word, "="); ok && !strings.ContainsAny(word[:1], "=<>") {
			members[name] = value
			continue
		}
		m := span.FindStringSubmatch(word)
		if m == nil {
			names = append(names, word)
			continue
		}
		from, _ := strconv.Atoi(m[1])
		to, _ := strconv.Atoi(m[2])
		for n := from; n <= to; n++ {
			names = append(names, strings.Replace(word, m[0], strconv.Itoa(n), 1))
		}
	}
	return names, members
}

func (s *story) do(line string) {
	verb, rest, _ := strings.Cut(line, " ")
	names, members := split(strings.Fields(rest))
	switch verb {
	case "publish":
		for _, r := range names {
			i := sandbox.Insertion{Reference: r, OfferType: cmp.Or(members["offerType"], "RENT")}
			s.must(s.model.Publish(s.owner(r), i))
		}
	case "withdraw":
		for _, r := range names {
			s.must(s.model.Withdraw(s.owner(r), r))
		}
	case "edit":
		for name, value := range members {
			for _, r := range names {
				s.setMember(s.owner(r), []string{r}, name, same(json.RawMessage(value)))
			}
		}
	case "drop":
		n := len(names) - 1
		for _, r := range names[:n] {
			s.setMember(s.owner(r), []string{r}, names[n], nil)
		}
	case "lead":
		age, every := s.duration(cmp.Or(members["age"], "0s")), s.duration(cmp.Or(members["every"], "1s"))
		for _, r := range names[1:] {
			for n := range s.int(cmp.Or(members["n"], "1")) {
				id := s.write(s.owner(r), r, age+time.Duration(n)*every)
				s.leads[names[0]] = append(s.leads[names[0]], id)
			}
			s.mu.Lock()
			s.written[r] = true
			s.mu.Unlock()
		}
	case "status", "score", "redact":
		if len(members) > 0 {
			s.judgeStatus(members)
			return
		}
		s.change(verb, names)
	case "set":
		s.set(members)
	case "api":
		s.changeAPI(names)
	case "key":
		key := map[string]string{"old": testKey, "new": newKey}[names[0]]
		s.configure(append([]keys{keyed(s.agency, key)}, s.options.Agencies[1:]...)...)
	case "start":
		s.start()
	case "halt":
		s.halt()
	case "restart":
		s.restart()
	case "takeover":
		s.halt()
		s.must(store.Adopt(filepath.Join(s.dir, "doorbell.db")))
		s.start()
	case "pass":
		s.pass(s.duration(names[0]))
	case "repeat":
		times, commands, _ := strings.Cut(rest, ":")
		for n := range s.int(times) {
			for c := range strings.SplitSeq(strings.ReplaceAll(commands, "$n", strconv.Itoa(n)), ";") {
				s.do(strings.TrimSpace(c))
			}
		}
	case "resume", "poll-now", "nudge":
		s.ask(verb, rest)
	case "approve":
		was, err := s.poller.Approve(s.agency)
		if s.must(err); !was {
			s.errorf("nothing was held")
		}
	case "fault":
		s.addRule(rest)
	case "mend":
		s.mu.Lock()
		s.rules = nil
		s.mu.Unlock()
	case "in":
		s.agency = names[0]
	case "mark":
		s.mu.Lock()
		s.walks = 0
		s.mu.Unlock()
		s.marked = time.Now()
		if s.stop != nil {
			s.commits = s.store.Commits()
		}
	case "commits":
		s.compare(verb, int(s.store.Commits()-s.commits), names[0], names[1])
	case "agencies":
		s.configure(slices.DeleteFunc(slices.Clone(s.all), func(a keys) bool { return !slices.Contains(names, a.ID) })...)
	case "skip":
		s.cursor[s.agency] = len(s.log(s.agency))
	case "want":
		s.want(rest)
	case "count":
		n := count(s.log(s.agency), events.Type(names[0]))
		s.compare(names[0], n, names[1], names[2])
	case "announced":
		s.judgeAnnounced(names)
	case "asked":
		s.judgeAsked(strings.Fields(rest))
	default:
		s.fatalf("no such command: %s", verb)
	}
}

// ask requests something of the poller, and checks the result.
func (s *story) ask(verb, rest string) {
	reference, want, wanted := strings.Cut(" "+rest, " = ")
	reference = strings.TrimSpace(reference)
	var done poller.PolledNow
	var err error
	switch verb {
	case "resume":
		_, err = s.poller.Resume(s.agency, reference)
	case "poll-now":
		done, err = s.poller.PollNow(s.agency)
	case "nudge":
		done, err = s.poller.Nudge(s.agency, reference)
	}
	got := fmt.Sprintf("%s, %d of %d", done.Waits, done.Insertions, done.Of)
	var early *poller.TooSoonError
	switch {
	case errors.Is(err, poller.ErrUnknownAgency):
		got = "unknown agency"
	case errors.Is(err, poller.ErrHalted):
		got = "halted"
	case errors.Is(err, poller.ErrTooSoon) && errors.As(err, &early):
		got = "too soon: " + early.Wait.String()
	}
	if wanted && got != want || !wanted && err != nil {
		s.errorf("%s, want %q: %v", got, want, err)
	}
}

func (s *story) change(verb string, names []string) {
	for _, id := range s.leads[names[0]] {
		switch verb {
		case "status":
			s.must(s.model.EditContactRequest(id, func(c *sandbox.ContactRequest) { c.Status = names[1] }))
		case "score":
			score := float64(s.int(names[1]))
			s.must(s.model.EditContactRequest(id, func(c *sandbox.ContactRequest) { c.Score = score }))
		case "redact":
			s.must(s.model.Redact(id))
		}
	}
}

func (s *story) set(members map[string]string) {
	for name, value := range members {
		switch o := &s.options; name {
		case "poll":
			o.PollInterval = s.duration(value)
		case "walk":
			o.WalkInterval = s.duration(value)
		case "hold":
			o.HoldFor = s.duration(value)
		case "filter":
			o.Filter, _ = url.ParseQuery(value)
		case "rate":
			rate, err := strconv.ParseFloat(value, 64)
			s.must(err)
			o.RequestsPerSecond = rate
		default:
			s.fatalf("no such setting: %s", name)
		}
	}
}

func (s *story) changeAPI(names []string) {
	switch names[0] {
	case "unlink":
		s.must(s.model.UnlinkKey(testKey, names[1]))
	case "link":
		s.model.AddKey(testKey, names[1])
	case "deactivate":
		s.must(s.model.DeactivateKey(testKey))
	case "add":
		s.model.AddKey(newKey, s.agency)
	default:
		s.fatalf("the API cannot %s", names[0])
	}
}

// selects reads selectors, and returns what it does not know.
func (s *story) selects(words []string) (x selector, others []string) {
	for n, word := range words {
		name, value, _ := strings.Cut(strings.Replace(word, ">", "=", 1), "=")
		switch {
		case word == "list":
			x.operation = sandbox.OperationInsertions
		case word == "requests":
			x.operation = sandbox.OperationContactRequests
		case word == "even":
			x.even = true
		case word == "empty":
			x.operation, x.empty = sandbox.OperationContactRequests, true
		case strings.Contains(word, "#"):
			references, _ := split([]string{word})
			x.references = append(x.references, references...)
		case name == "agency":
			x.agency = value
		case name == "key":
			x.key = map[string]string{"old": "key-1", "new": "key-2"}[value]
		case strings.HasPrefix(word, "page>"):
			x.beyond = s.int(value)
		case strings.HasPrefix(word, "size>"):
			x.larger = s.int(value)
		case name == "page":
			x.page = value
		case name == "status":
			x.status = s.int(value)
		default:
			return x, words[n:]
		}
	}
	return x, nil
}

func (x selector) matches(c sandbox.Call) bool {
	n, page, size := 0, 0, 0
	fmt.Sscanf(c.Reference, "a#%d##", &n)
	fmt.Sscan(c.Query.Get("page"), &page)
	fmt.Sscan(c.Query.Get("numberOfItemsPerPage"), &size)
	return (x.operation == "" || x.operation == c.Operation) && (x.agency == "" || x.agency == c.AgencyID) &&
		(x.key == "" || x.key == c.Key) && (x.page == "" || x.page == cmp.Or(c.Query.Get("page"), "none")) &&
		page >= x.beyond+min(x.beyond, 1) && size >= x.larger+min(x.larger, 1) && (!x.even || n%2 == 0 && n > 0) &&
		(x.references == nil || slices.Contains(x.references, c.Reference))
}

func (s *story) addRule(line string) {
	before, after, found := strings.Cut(" "+line, " : ")
	if !found {
		s.fatalf("a fault needs a response")
	}
	x, others := s.selects(strings.Fields(before))
	r := &rule{selector: x, left: -1}
	for _, word := range others {
		switch name, value, _ := strings.Cut(word, "="); name {
		case "times":
			r.left = s.int(value)
		case "walk":
			r.walk = s.int(value)
		case "for":
			r.lasts = s.duration(value)
		case "spreads":
			r.spreads = true
		default:
			s.fatalf("no such selector: %s", word)
		}
	}
	r.fault = s.response(after, r)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rules = append(s.rules, r)
}

// response reads what comes in place of an honest response, or beside it.
func (s *story) response(text string, r *rule) *sandbox.Fault {
	f := &sandbox.Fault{Header: http.Header{}}
	for words := strings.Fields(text); len(words) > 0; words = words[1:] {
		switch verb := words[0]; verb {
		case "body":
			_, body, _ := strings.Cut(text, "body ")
			f.Body = []byte(strings.ReplaceAll(body, `\r\n`, "\r\n"))
			return f
		case "beside":
			_, members, _ := strings.Cut(text, "beside ")
			f.Edit = func(body []byte) []byte { return bytes.Replace(body, []byte("{"), []byte("{"+members+","), 1) }
			return f
		case "delay", "date", "without":
			words = words[1:]
			switch verb {
			case "delay":
				f.Delay = s.duration(words[0])
			case "date":
				ahead := s.duration(words[0])
				r.date = &ahead
			default:
				f.Without, _ = split(words[:1])
			}
		case "header":
			f.Header[words[1]] = []string{strings.ReplaceAll(words[2], "_", " ")}
			if words[2] == "none" {
				f.Header[words[1]] = nil
			}
			words = words[2:]
		default:
			f.Status = s.int(verb)
		}
	}
	return f
}

func (s *story) decide(c sandbox.Call) *sandbox.Fault {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.Operation == sandbox.OperationInsertions && !c.Query.Has("page") {
		s.walks++
	}
	for _, r := range s.rules {
		if !r.matches(c) || r.empty && s.written[c.Reference] || r.left == 0 || r.walk > 0 && r.walk != s.walks || r.lasts > 0 && !r.first.IsZero() && c.At.Sub(r.first) > r.lasts {
			continue
		}
		if r.first.IsZero() {
			r.first = c.At
		}
		if r.left--; r.spreads {
			r.selector, r.spreads = selector{}, false
		}
		f := *r.fault
		if f.Header = f.Header.Clone(); r.date != nil {
			f.Header.Set("Date", c.At.Add(*r.date).UTC().Format(http.TimeFormat))
		}
		f.Body = bytes.ReplaceAll(f.Body, []byte("$walk"), []byte(strconv.Itoa(s.walks)))
		return &f
	}
	return nil
}

// want takes the next events of the log. Members are those of the events of the type before them.
func (s *story) want(text string) {
	if text == "nothing" {
		return
	}
	var want []events.Type
	members := map[events.Type][]string{}
	for part := range strings.SplitSeq(text, " & ") {
		words := strings.Fields(part)
		times := 1
		if n, err := strconv.Atoi(words[0]); err == nil {
			times, words = n, words[1:]
		}
		kind := events.Type(words[0])
		for range times {
			want = append(want, kind)
		}
		for _, word := range words[1:] {
			if !strings.ContainsAny(word, "=<") { // the value before it has more words
				members[kind][len(members[kind])-1] += " " + word
				continue
			}
			members[kind] = append(members[kind], word)
		}
	}
	list := s.since(s.agency, s.cursor[s.agency])
	got := list[:min(len(list), len(want))]
	s.cursor[s.agency] += len(got)
	if a, b := slices.Sorted(slices.Values(types(got))), slices.Sorted(slices.Values(want)); !slices.Equal(a, b) {
		s.fatalf("got  %v\nwant %v", list, want)
	}
	for _, e := range got {
		for _, member := range members[e.Type] {
			name, value, equal := strings.Cut(member, "=")
			if !equal {
				name, value, _ = strings.Cut(member, "<")
			}
			is := fmt.Sprint(e.body[name])
			if name == "origin" {
				is = string(e.Origin)
			}
			if equal && is != value || !equal && is >= value {
				s.errorf("%s of %s is %s, want %s", name, e.Type, is, member)
			}
		}
	}
}

func (s *story) nothingElse() {
	s.line--
	if more := s.since(s.agency, s.cursor[s.agency]); len(more) > 0 {
		s.fatalf("further events: %v", more)
	}
	s.line++
}

func (s *story) compare(what string, got int, operator, want string) {
	n := s.int(want)
	ok := map[string]bool{"=": got == n, "<=": got <= n, ">=": got >= n}[operator]
	if !ok {
		s.errorf("%s: %d, want %s %d", what, got, operator, n)
	}
}

// told counts the announced leads of all agencies, by id.
func (s *story) told() map[string]int {
	all := map[string]int{}
	for _, a := range s.all {
		maps.Copy(all, announced(s.log(a.ID)))
	}
	return all
}

func (s *story) judgeAnnounced(names []string) {
	got := s.told()
	for _, name := range names {
		for _, id := range s.leads[name] {
			if got[id] != 1 {
				s.errorf("%s was announced %d times, %+v", name, got[id], s.world.status(s.agency).Halts)
			}
			delete(got, id)
		}
	}
	if len(got) > 0 {
		s.errorf("%d others were announced: %v", len(got), got)
	}
}

func (s *story) judgeAsked(words []string) {
	x, rest := s.selects(words)
	n := 0
	for _, c := range s.model.Log(sandbox.Filter{Status: x.status}) {
		if !c.At.Before(s.marked) && x.matches(c.Call) {
			n++
		}
	}
	s.compare("requests", n, rest[0], rest[1])
}

func (s *story) judgeStatus(members map[string]string) {
	a := s.world.status(s.agency)
	got := map[string]any{
		"state": a.State, "halts": len(a.Halts), "alarms": len(a.Alarms), "volatile": len(a.Volatile),
		"past": a.Freshness.PastCap, "never": a.Freshness.NeverPolled,
		"throttled": s.poller.Status().Effective < s.options.RequestsPerSecond,
	}
	for name, want := range members {
		if fmt.Sprint(got[name]) != want {
			s.errorf("%s is %v, want %s: %+v", name, got[name], want, a)
		}
	}
}
