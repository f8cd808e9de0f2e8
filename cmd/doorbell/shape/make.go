package shape

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"doorbell/poller/listings"

	"github.com/go-json-experiment/json/jsontext"
)

// maker writes one made-up body in a form that was described.
type maker struct {
	response          *Response
	agency, reference string
	host              string
	now               time.Time // of the newest time
	salt              string    // of everything that differs: page and reference
	page, pages       int       // from 0
	shown, total      int       // records on this page, and all of them
	reversed          bool      // records in the other order
	b                 []byte
}

func (m *maker) body(t *tree) []byte {
	m.value(t, 0, "", false)
	return m.b
}

// value writes what stands at a place of the nth object or element around it.
func (m *maker) value(t *tree, n int, path string, inRecord bool) {
	for _, k := range t.kinds {
		rank, has := slices.BinarySearch(k.at, n)
		if !has {
			continue
		}
		switch kindOf := k.Type; {
		case m.isLast() && !inRecord && (kindOf == "string" || kindOf == "number") && isNamed(path, nextNames):
			m.b = append(m.b, "null"...)
		case kindOf == "object":
			m.object(t, k, rank, path, inRecord)
		case kindOf == "array":
			m.array(t, k, rank, path)
		case kindOf == "string":
			m.b = appendText(m.b, m.text(k, rank, path), k.Form == "broken text")
		case kindOf == "number":
			m.b = append(m.b, m.number(k, rank, path)...)
		case kindOf == "boolean":
			m.b = append(m.b, m.boolean(k, rank, path, inRecord)...)
		default:
			m.b = append(m.b, "null"...)
		}
		return
	}
	m.b = append(m.b, "null"...) // lines that were edited
}

func (t *tree) has(n int) bool {
	return slices.ContainsFunc(t.kinds, func(k *kind) bool { _, has := slices.BinarySearch(k.at, n); return has })
}

func (m *maker) object(t *tree, k *kind, rank int, path string, inRecord bool) {
	m.b = append(m.b, '{')
	first := true
	separate := func(name string) {
		if !first {
			m.b = append(m.b, ',')
		}
		first = false
		m.b = append(appendText(m.b, name, strings.HasPrefix(name, "broken")), ':')
	}
	for _, member := range t.members {
		if member.has(rank) {
			separate(member.name)
			m.value(member, rank, path+"/"+member.name, inRecord)
		}
	}
	for _, e := range t.entries {
		from, to := m.window(e.sizes, rank, path)
		for n := from; n < to; n++ {
			separate(m.entryName(e.name, n, path))
			m.value(e, n%max(e.of, 1), path+"/"+e.name, true)
		}
	}
	m.b = append(m.b, '}')
}

func (m *maker) array(t *tree, k *kind, rank int, path string) {
	if k.Form == "date as numbers" {
		at := m.moment(k, rank)
		parts := []int{at.Year(), int(at.Month()), at.Day(), at.Hour(), at.Minute(), at.Second(), 0}
		length := 7
		if k.Length != nil {
			length = min(7, max(5, k.Length.Max))
		}
		m.b = append(m.b, strings.ReplaceAll(fmt.Sprint(parts[:length]), " ", ",")...)
		return
	}
	m.b = append(m.b, '[')
	if t.element != nil {
		from, to := m.window(k.sizes, rank, path)
		isList := path == m.response.Body.Records
		for n := from; n < to; n++ {
			if n > from {
				m.b = append(m.b, ',')
			}
			at := n
			if isList && m.reversed {
				at = from + to - 1 - n
			}
			m.value(t.element, at%max(t.element.of, 1), path+"/*", true)
		}
	}
	m.b = append(m.b, ']')
}

// window is which elements an array has: of the list of records those of the page.
func (m *maker) window(sizes []int, rank int, path string) (from, to int) {
	for n := range min(rank, len(sizes)) {
		from += sizes[n]
	}
	size := 0
	if rank < len(sizes) {
		size = sizes[rank]
	}
	if path == m.response.Body.Records {
		size = min(size, m.shown)
	}
	return from, from + size
}

// sum is what is different for everything that is made up.
func (m *maker) sum(path string, n int) [32]byte {
	return sha256.Sum256(fmt.Appendf(nil, "%s\x00%s\x00%d", m.salt, path, n))
}

// nth is which of the different values the value of a rank is.
func (k *kind) nth(rank int) int {
	if k.Distinct > 0 {
		return rank % k.Distinct
	}
	return rank
}

func (m *maker) entryName(class string, n int, path string) string {
	sum := m.sum(path+"/"+class, n)
	switch class {
	case "{index}":
		return strconv.Itoa(n)
	case "{uuid}":
		return formatUUID(sum)
	case "{e-mail}":
		return fmt.Sprintf("%x@example.org", sum[:4])
	case "{digits}":
		return fmt.Sprintf("0%09d", binary.BigEndian.Uint32(sum[:])%1_000_000_000)
	}
	return fmt.Sprintf("%s name %x", map[bool]string{true: "broken", false: "odd"}[class == "{broken text}"], sum[:4])
}

func formatUUID(sum [32]byte) string {
	sum[6], sum[8] = 0x40|sum[6]&0x0f, 0x80|sum[8]&0x3f
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

// step is the time between two moments that are made up.
const step = 97 * time.Minute

// moment is a time of a rank, in the order of the original; later pages are older.
func (m *maker) moment(k *kind, rank int) time.Time {
	n, of := k.nth(rank), k.In
	switch k.Order {
	case "descending":
	case "ascending":
		n = of - 1 - n
	default:
		n = (n*7 + 3) % max(of, 1)
		if of%7 == 0 {
			n = (rank*5 + 3) % max(of, 1)
		}
	}
	return m.now.Add(-time.Duration(m.page*of+n+1) * step)
}

func (m *maker) number(k *kind, rank int, path string) string {
	if unit, ok := strings.CutPrefix(k.Form, "moment in "); ok {
		return m.epoch(k, rank, unit)
	}
	if n, ok := m.related(k.Is, path); ok {
		return strconv.Itoa(n)
	}
	length := 1
	if k.Length != nil {
		length = min(max(k.Length.Max, 1), 40)
	}
	switch k.Form {
	case "9":
		return m.digits(k, rank, path, min(length, 15))
	case "-9":
		return "-" + m.digits(k, rank, path, min(max(length-1, 1), 15))
	case "9e9":
		return m.digits(k, rank, path, 1) + "e2"
	}
	sign := ""
	if strings.HasPrefix(k.Form, "-") {
		sign = "-"
	}
	if strings.Contains(k.Form, "e") {
		return sign + m.digits(k, rank, path, 1) + ".5e2"
	}
	return sign + m.digits(k, rank, path, min(max(length-2, 1), 12)) + ".5"
}

func (m *maker) epoch(k *kind, rank int, unit string) string {
	at := m.moment(k, rank)
	for _, u := range units {
		if u.name == unit {
			return strconv.FormatInt(at.Unix()*u.perSecond, 10)
		}
	}
	return strconv.FormatInt(at.Unix(), 10)
}

// digits is a number of so many digits, different for each of the different ones while there are
// enough.
func (m *maker) digits(k *kind, rank int, path string, length int) string {
	name := strings.ToLower(path[strings.LastIndex(path, "/")+1:])
	n := k.nth(rank)
	switch name { // members of a time
	case "year":
		return strconv.Itoa(m.now.Year() - 1)
	case "month", "monthvalue", "dayofmonth", "day", "hour", "minute", "second":
		if length < 3 {
			return strconv.Itoa(1 + n%9)
		}
	}
	low := 1
	for range length - 1 {
		low *= 10
	}
	start := 0
	if length > 3 {
		sum := m.sum(path, 0)
		start = int(binary.BigEndian.Uint32(sum[:]))
	}
	return strconv.Itoa(low + (start+n)%(9*low))
}

// related is a number of the envelope, by what it is.
func (m *maker) related(is, path string) (int, bool) {
	name := strings.ToLower(path[strings.LastIndex(path, "/")+1:])
	switch is {
	case "records":
		if strings.Contains(name, "total") || m.page == 0 {
			return m.total, true
		}
		return m.shown, true
	case "more than records":
		if isTotal(path) {
			return max(m.total, m.shown+1), true
		}
		return m.shown + 20, true
	case "fewer than records":
		return max(m.shown-1, min(m.pages, 2)), true
	case "none":
		return 0, true
	case "one":
		return 1, true
	case "some":
		return 3, true
	case "size asked for":
		return m.response.Size, true
	case "status":
		return m.response.Status, true
	case "a status of failure":
		return max(m.response.Status, 400), true
	}
	return 0, false
}

// isTotal reports whether a member or header counts all records, not those of a page.
func isTotal(path string) bool {
	name := strings.ToLower(path[strings.LastIndex(path, "/")+1:])
	for _, part := range []string{"page", "size", "limit", "from", "start", "offset"} {
		if strings.Contains(name, part) && !strings.Contains(name, "totalsize") && !strings.HasPrefix(name, "x-") {
			return false
		}
	}
	for _, part := range []string{"total", "count", "numfound", "gesamt", "anzahl", "nombre", "cntabsolute", "content-range"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return name == "value"
}

// boolean repeats what a response says of itself, but on later pages tells which is the last.
func (m *maker) boolean(k *kind, rank int, path string, inRecord bool) string {
	if k.Is == "" {
		return strconv.FormatBool(rank%2 == 0)
	}
	if m.isLast() {
		switch {
		case isNamed(path, endNames):
			return "true"
		case isNamed(path, moreNames):
			return "false"
		}
	}
	return k.Is
}

// isLast reports whether a page is the last of several, or behind it.
func (m *maker) isLast() bool { return m.page > 0 && m.page >= m.pages-1 }

var (
	endNames  = []string{"last", "isLast", "lastPage", "isLastPage", "end", "isEnd"}
	moreNames = []string{"hasMore", "hasNext", "hasNextPage", "hasMorePages", "more", "morePages", "next"}
	nextNames = []string{"next", "nextPage", "nextLink", "nextUrl", "nextPageUrl", "nextCursor", "nextPageToken", "nextToken", "@odata.nextLink"}
)

// isNamed reports whether a path ends with one of the names.
func isNamed(path string, names []string) bool {
	name := path[strings.LastIndex(path, "/")+1:]
	return slices.ContainsFunc(names, func(n string) bool { return listings.SameName(n, name) })
}

// saysMore reports whether a line says that there are more records than those shown.
func (l Line) saysMore() bool {
	switch l.Type {
	case "boolean":
		return l.Is == "true" && isNamed(l.Path, moreNames) || l.Is == "false" && isNamed(l.Path, endNames)
	case "number":
		return l.Is == "more than records" && isTotal(l.Path) || isNamed(l.Path, nextNames)
	case "string":
		return l.Is == "more than records" && isTotal(l.Path) || isNamed(l.Path, nextNames) && l.Form != "empty" || strings.HasPrefix(l.Is, "next: ")
	}
	return false
}

func (m *maker) text(k *kind, rank int, path string) string {
	sum := m.sum(path, k.nth(rank))
	if word, ok := strings.CutPrefix(k.Is, "says: "); ok {
		return word
	}
	switch k.Is {
	case "agencyId asked for":
		return m.agency
	case "another agencyId":
		return "Z999"
	case "propertyReferenceId asked for":
		return m.reference
	case "":
	default:
		if n, ok := m.related(k.Is, path); ok {
			return strconv.Itoa(n)
		}
	}
	if unit, ok := strings.CutPrefix(k.Form, "moment in "); ok {
		return m.epoch(k, rank, unit)
	}
	switch k.Form {
	case "empty":
		return ""
	case "white space":
		return " "
	case "uuid":
		return formatUUID(sum)
	case "hex":
		length := 24
		if k.Length != nil {
			length = min(k.Length.Max, 64)
		}
		return fmt.Sprintf("%x", sum)[:length]
	case "e-mail":
		return fmt.Sprintf("person.%x@example.org", sum[:4])
	case "name <e-mail>":
		return fmt.Sprintf("Person Beispiel <person.%x@example.org>", sum[:4])
	case "mailto:e-mail":
		return fmt.Sprintf("mailto:person.%x@example.org", sum[:4])
	case "zone":
		return "Europe/Zurich"
	case "url of the API":
		return fmt.Sprintf("https://%s/made-up/%x", m.host, sum[:4])
	case "url elsewhere":
		return fmt.Sprintf("https://elsewhere.example.org/%x", sum[:4])
	case "path":
		return fmt.Sprintf("/made-up/%x", sum[:4])
	case "text", "word", "broken text", "long text", "control text":
		return prose(k, sum, k.nth(rank))
	}
	if strings.Contains(k.Form, "x") {
		return m.segments(k, sum)
	}
	return m.masked(k, rank, sum)
}

func (m *maker) segments(k *kind, sum [32]byte) string {
	n := -1
	return replaceEach(k.Form, 'x', func() string {
		n++
		return fmt.Sprintf("m%x", sum[3*n%30:3*n%30+2])
	})
}

func replaceEach(s string, what byte, with func() string) string {
	var b strings.Builder
	for i := range len(s) {
		if s[i] == what {
			b.WriteString(with())
		} else {
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

// masked fills in a pattern: a date with a moment, anything else with digits.
func (m *maker) masked(k *kind, rank int, sum [32]byte) string {
	if form, no := strings.CutSuffix(k.Form, " of no moment"); no || dateLike.MatchString(strings.ReplaceAll(form, "9", "1")) {
		at := m.moment(k, rank)
		if no {
			at = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
		}
		return dated(form, at)
	}
	n := uint64(k.nth(rank))
	digits := fmt.Sprintf("%020d", binary.BigEndian.Uint64(sum[:])>>1%1_000_000_000_000+n)
	at := len(digits)
	text := []byte(k.Form)
	for i := len(text) - 1; i >= 0; i-- {
		if text[i] == '9' {
			if at--; at < 0 {
				at = len(digits) - 1
			}
			text[i] = digits[at]
		}
	}
	if i := slices.IndexFunc(text, func(c byte) bool { return c != '0' }); i > 0 && !strings.ContainsAny(k.Form, " +-/") && k.Form[0] == '9' {
		text[0] = '1' // a number does not begin with 0
	}
	return string(text)
}

// dated writes a moment by a pattern. What is not a part of a date stays as it is.
func dated(form string, at time.Time) string {
	parts := datePart.FindAllString(form, -1)
	year, month, day := -1, -1, -1
	var numbers []int
	for n, p := range parts {
		switch {
		case p[0] == '9':
			numbers = append(numbers, n)
		case strings.HasPrefix(p, "Mm"):
			month = n
			parts[n] = at.Month().String()
			if len(p) < 4 {
				parts[n] = parts[n][:3]
			}
		case p == "Ddd":
			parts[n] = at.Weekday().String()[:3]
		case p == "[zone]":
			parts[n] = "[UTC]"
		case p == "(zone)":
			parts[n] = "(UTC)"
		case strings.EqualFold(p, "AM"), strings.EqualFold(p, "PM"):
			parts[n] = at.Format("PM")
		}
	}
	half := strings.ContainsAny(form, "AP") && strings.Contains(strings.ToUpper(form), "M")
	next := func() int {
		if len(numbers) == 0 {
			return -1
		}
		n := numbers[0]
		numbers = numbers[1:]
		return n
	}
	set := func(n, value int) {
		if n >= 0 {
			parts[n] = fmt.Sprintf("%0*d", len(parts[n]), value)
		}
	}
	switch {
	case len(numbers) > 0 && len(parts[numbers[0]]) == 8: // 20261120T104107Z
		parts[next()] = at.Format("20060102")
		if n := next(); n >= 0 {
			parts[n] = at.Format("150405")[:min(6, len(parts[n]))]
		}
	case month >= 0:
		day = next()
		set(day, at.Day())
		for i, n := range numbers {
			if len(parts[n]) == 4 {
				set(n, at.Year())
				numbers = slices.Delete(numbers, i, i+1)
				break
			}
		}
	case len(numbers) > 2 && len(parts[numbers[0]]) == 4:
		year, month, day = next(), next(), next()
	case len(numbers) > 2 && len(parts[numbers[2]]) == 4:
		day, month, year = next(), next(), next()
	}
	if year >= 0 {
		set(year, at.Year())
		set(month, int(at.Month()))
		set(day, at.Day())
	}
	hour := at.Hour()
	if half && slices.ContainsFunc(parts, func(p string) bool { return p == "AM" || p == "PM" }) {
		hour = (hour+11)%12 + 1
	}
	set(next(), hour)
	set(next(), at.Minute())
	for i, n := range numbers { // seconds, a fraction, an offset
		sign := n > 0 && (parts[n-1] == "+" || parts[n-1] == "-")
		switch {
		case i == 0 && len(parts[n]) == 2 && !sign && n > 0 && parts[n-1] == ":":
			set(n, at.Second())
		case sign && len(parts[n]) == 2:
			parts[n] = "00"
		default:
			parts[n] = strings.Repeat("0", len(parts[n]))
		}
	}
	return strings.Join(parts, "")
}

// prose is a text of a length and an alphabet, different for each of the different ones where there
// is room.
func prose(k *kind, sum [32]byte, n int) string {
	length := 8
	if k.Length != nil {
		length = min((k.Length.Min+k.Length.Max+1)/2, 2*longText)
		if k.Length.Max-k.Length.Min < 3 {
			length = k.Length.Max
		}
	}
	has := func(class string) bool { return slices.Contains(k.Alphabet, class) }
	letters := ""
	if has("lower case") || len(k.Alphabet) == 0 {
		letters = "abcdefghijklmnoprstuvw"
	}
	if has("upper case") && letters == "" || k.Form == "word" {
		letters = "ABCDEFGHIJKLMNOPRSTUVW"
	}
	if has("digits") && letters == "" {
		letters = "123456789"
	}
	if letters == "" && has("letters beyond ASCII") {
		letters = "äöüéèàêôçñ"
	}
	if letters == "" {
		letters = "-.!?"
	}
	pool := []rune(letters)
	text := make([]rune, 0, length)
	for i := range length {
		text = append(text, pool[int(sum[i%32]+byte(i/32))%len(pool)])
	}
	for i := len(text) - 1; i >= 0 && i >= len(text)-3; i-- { // the number, backwards
		text[i] = pool[n%len(pool)]
		n /= len(pool)
	}
	put := func(class string, at int, r rune) {
		if has(class) && at > 0 && at < len(text)-3 {
			text[at] = r
		}
	}
	put("spaces", 6, ' ')
	put("digits", 3, '7')
	put("letters beyond ASCII", 4, 'ü')
	put("line breaks", 9, '\n')
	put("punctuation", 5, '-')
	put("markup", 10, '&')
	put("control characters", 11, '\x01')
	if k.Form == "control text" && len(text) > 0 {
		text[len(text)-1] = 0
	}
	if has("upper case") && has("lower case") && len(text) > 3 {
		text[0] = []rune(strings.ToUpper(string(text[0])))[0]
	}
	return string(text)
}

// appendText appends a JSON string; a broken one has a byte in it that is no text.
func appendText(b []byte, text string, broken bool) []byte {
	b, _ = jsontext.AppendQuote(b, text)
	if broken {
		b = append(b[:len(b)-1], "\xff\""...)
	}
	return b
}
