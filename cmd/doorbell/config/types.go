package config

import (
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// advice is what is wrong with a value and what to write instead. It never holds the value itself:
// a key that was pasted into the wrong variable must not come out in an error.
type advice string

func (a advice) Error() string { return string(a) }

func advise(format string, args ...any) error { return advice(fmt.Sprintf(format, args...)) }

// Size is a number of bytes, written 32MiB or 8GiB.
type Size int64

// sizeUnits are what may follow the number; without one it counts bytes.
var sizeUnits = map[string]int64{
	"": 1, "B": 1, "kB": 1e3, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
	"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
}

// Decode reads a whole number with a unit.
func (s *Size) Decode(text string) error {
	number := strings.TrimRight(text, "BKMGTikb")
	factor, known := sizeUnits[text[len(number):]]
	n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
	if !known || err != nil || n < 0 || n > math.MaxInt64/factor {
		return advice("is not a size; write it like 512KiB, 32MiB or 8GiB")
	}
	*s = Size(n * factor)
	return nil
}

// ParseDuration reads a duration as time.ParseDuration does, and whole days before it: 30d, 1d12h.
func ParseDuration(text string) (time.Duration, error) {
	days, rest, found := strings.Cut(text, "d")
	if !found {
		return time.ParseDuration(text)
	}
	n, err := strconv.ParseUint(days, 10, 16)
	if err != nil {
		return 0, err
	}
	more, err := time.ParseDuration(rest + "0s")
	return time.Duration(n)*24*time.Hour + more, err
}

// AutoDuration is a duration, or 0 for auto.
type AutoDuration time.Duration

// Decode takes "auto" or a duration other than 0.
func (d *AutoDuration) Decode(text string) error {
	v, err := ParseDuration(text)
	if text != "auto" && (err != nil || v == 0) {
		return advice("is neither auto nor a duration; write it like 10m or 2h")
	}
	*d = AutoDuration(v)
	return nil
}

// Zone is a time zone by its IANA name.
type Zone struct{ *time.Location }

// Decode looks the name up in the zones that are built in.
func (z *Zone) Decode(text string) (err error) {
	if z.Location, err = time.LoadLocation(text); err != nil {
		return advice("is not a time zone; write a name of the IANA list, like Europe/Zurich or UTC")
	}
	return nil
}

// Address is a URL or several, separated by commas. It is printed without what could be a
// credential in it.
type Address string

// Masked leaves out user, password, query and fragment of each address.
func (a Address) Masked() string {
	if a == "" {
		return ""
	}
	var parts []string
	for text := range strings.SplitSeq(string(a), ",") {
		u, err := parseServer(text)
		if err != nil {
			return Redacted
		}
		user := ""
		if u.User != nil {
			user = "***@"
		}
		parts = append(parts, u.Scheme+"://"+user+u.Host+u.EscapedPath())
	}
	return strings.Join(parts, ",")
}

// parseServer reads one address. That of a NATS server may lack its scheme.
func parseServer(text string) (*url.URL, error) {
	if text = strings.TrimSpace(text); !strings.Contains(text, "://") {
		text = "nats://" + text
	}
	return url.Parse(text)
}

// Names are field names, separated by commas.
type Names []string

// Decode refuses empty and double names.
func (n *Names) Decode(text string) error {
	names, err := list(text)
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			return advise("entry %d is there twice; write each name once", i+1)
		}
	}
	*n = names
	return err
}

// Hosts are lower-case host names without scheme or port.
type Hosts []string

// Decode refuses what is more than a host name.
func (h *Hosts) Decode(text string) error {
	hosts, err := list(strings.ToLower(text))
	for i, host := range hosts {
		if strings.ContainsAny(host, "/@*? ") || strings.Count(host, ":") == 1 {
			return advise("entry %d is more than a host name; "+
				"write the name alone, without scheme and port", i+1)
		}
	}
	*h = hosts
	return err
}

// Filter is the query that narrows the list of insertions.
type Filter url.Values

var filterNames = []string{"offerType", "rankType", "searchQuery"}

// Decode takes a URL query that holds only what the API can filter by, each once.
func (f *Filter) Decode(text string) error {
	query, err := url.ParseQuery(text)
	if err != nil {
		return advice("is not a URL query; write it like offerType=RENT&searchQuery=8005")
	}
	for name, values := range query {
		if !slices.Contains(filterNames, name) {
			return advise("names a filter that the API does not have; it has %s",
				strings.Join(filterNames, ", "))
		}
		if len(values) != 1 || values[0] == "" {
			return advise("gives %s no value, or several; write one", name)
		}
	}
	*f = Filter(query)
	return nil
}

// Pointers are JSON pointers (RFC 6901) by kind of record.
type Pointers struct{ Insertion, ContactRequest []string }

// Decode reads "insertion:/views,contact_request:/read".
func (p *Pointers) Decode(text string) error {
	entries, err := list(text)
	for i, entry := range entries {
		kind, pointer, _ := strings.Cut(entry, ":")
		// The whole document, which is the empty pointer, is no part of a record.
		valid := len(pointer) > 1 && jsontext.Pointer(pointer).IsValid()
		switch {
		case valid && kind == "insertion":
			p.Insertion = append(p.Insertion, pointer)
		case valid && kind == "contact_request":
			p.ContactRequest = append(p.ContactRequest, pointer)
		default:
			return advise("entry %d is not a pointer; write insertion:/path or "+
				"contact_request:/path, separated by commas", i+1)
		}
	}
	return err
}

// list splits at commas and trims; empty entries are refused.
func list(text string) ([]string, error) {
	entries := strings.Split(text, ",")
	for i := range entries {
		entries[i] = strings.TrimSpace(entries[i])
		if entries[i] == "" {
			return nil, advise("entry %d is empty; remove the comma or write what is missing", i+1)
		}
	}
	return entries, nil
}
