package sandbox

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	_ "time/tzdata" // Europe/Zurich must not depend on the machine
	"unicode"
)

// LastPageAgain as [Rendering].PastEnd serves the last page for every number
// behind it, for ever.
const LastPageAgain = -1

// Sizes are the sizes that are refused. The zero value refuses none; what is too
// large is then capped in silence.
type Sizes struct {
	Least, Most int // others are refused; zero: no such bound
	TooSmall    int // status of what is below Least; zero: 416
	TooLarge    int // status of what is above Most; zero: 400
	Any         int // status of every number that is given at all; zero: taken
}

// take reads a size parameter and caps it; the status is 200, or why not.
func (s Sizes) take(v url.Values, name string, ifAbsent, most int) (size, status int) {
	if !v.Has(name) {
		return min(ifAbsent, most), http.StatusOK
	}
	n, err := number(v, name, ifAbsent, 1)
	switch {
	case err != nil:
		return 0, http.StatusBadRequest
	case s.Any != 0:
		return 0, s.Any
	case n < s.Least:
		return 0, orElse(s.TooSmall, http.StatusRequestedRangeNotSatisfiable)
	case s.Most > 0 && n > s.Most:
		return 0, orElse(s.TooLarge, http.StatusBadRequest)
	}
	return min(n, most), http.StatusOK
}

func orElse(status, ifZero int) int {
	if status == 0 {
		return ifZero
	}
	return status
}

// Order is one that contact requests are given in whatever was asked for. The
// zero value obeys sortBy and sortOrder.
type Order string

// The orders of those who do not obey.
const (
	OldestFirst Order = "oldest"
	NewestFirst Order = "newest"
	BestFirst   Order = "score" // the highest score
	ByID        Order = "id"    // by its text, which tells nothing of time
)

// IDs is how contact requests are identified.
type IDs string

// The zero value shows the id as the model has it.
const (
	IDNumber     IDs = "number"      // an integer above 2^53; see NumberID
	IDNumberText IDs = "number_text" // the same digits as a text
	IDAbsent     IDs = "absent"
)

// NumberID is the number, as digits, that stands for an id under [IDNumber] and
// [IDNumberText]. A float64 cannot hold it.
func NumberID(id string) string {
	h := sha256.Sum256([]byte(id))
	n := binary.BigEndian.Uint64(h[:])>>8 | 1<<54 | 1 // odd, so that rounding always shows
	return strconv.FormatUint(n, 10)
}

func (s IDs) show(o object, id string) object {
	switch s {
	case IDNumber:
		return o.replaced("id", json.Number(NumberID(id)))
	case IDNumberText:
		return o.replaced("id", NumberID(id))
	case IDAbsent:
		return o.without("id")
	}
	return o
}

// Names is the style of member names. The one name that the description
// promises, propertyReferenceId, is never changed by it.
type Names string

// The zero value is camelCase.
const (
	SnakeCase  Names = "snake_case"
	PascalCase Names = "PascalCase"
)

func (n Names) apply(name string) string {
	if n == "" || name == reference {
		return name
	}
	if n == PascalCase {
		return strings.ToUpper(name[:min(1, len(name))]) + name[min(1, len(name)):]
	}
	var b strings.Builder
	for i, c := range name {
		if unicode.IsUpper(c) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}

// None is how an empty list is shown. Only the zero value and NullList have a
// body that a client could take for a list.
type None string

// The zero value is an empty array.
const (
	NullList  None = "null"  // null in place of the array
	NoContent None = "204"   // status 204
	NoBody    None = "empty" // status 200 and no body
)

// Volatile are members of insertions that differ from answer to answer although
// nothing has happened.
type Volatile struct {
	Views               bool // a counter that ticks at every answer
	ContactRequestCount bool // how many contact requests are visible: true, and changing
	Touched             bool // updatedAt is always the moment of the answer
	SignedURLs          bool // images whose addresses carry a new signature each time
	Translation         bool // an English title in every other answer only
}

// Conditional is how conditional requests are answered. A 304 is given only to a
// key that was served the answer it stands for, and counts as serving what that
// answer held.
type Conditional struct {
	ETag         bool // a weak ETag; If-None-Match is honoured
	LastModified bool // the second since when the answer is what it is; If-Modified-Since is honoured
	// Lying validators stay the same although the body changes, so that a 304 hides
	// the change. What is true stays exact: it counts as serving the old again.
	Lying bool
}

// Layouts of [Rendering].TimeLayout beside those of package time. The last two
// are numbers.
const (
	TimeMillis        = "2006-01-02T15:04:05.000Z07:00"
	TimeNoColon       = "2006-01-02T15:04:05-0700"
	TimeZoneless      = "2006-01-02T15:04:05"
	EpochSeconds      = "epoch seconds"
	EpochMilliseconds = "epoch milliseconds"
)

// Zurich is the zone that times without one are in.
var Zurich = mustLoad("Europe/Zurich")

func mustLoad(name string) *time.Location {
	zone, err := time.LoadLocation(name)
	if err != nil {
		panic(err) // it is embedded
	}
	return zone
}

// showTime returns a text or a number.
func (r Rendering) showTime(t time.Time) any {
	switch r.TimeLayout {
	case EpochSeconds:
		return json.Number(strconv.FormatInt(t.Unix(), 10))
	case EpochMilliseconds:
		return json.Number(strconv.FormatInt(t.UnixMilli(), 10))
	}
	return t.In(r.Zone).Format(r.TimeLayout)
}
