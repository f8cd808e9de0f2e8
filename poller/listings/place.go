package listings

import (
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// sought is what an operation looks for in an answer.
type sought struct {
	what     string                         // in words
	names    []string                       // of the list
	fits     func(list) bool                // whether an array holds records
	anywhere func(strict bool) (list, bool) // records, wherever they are; strict: where another place was expected
	none     func() (list, bool)            // an empty list that unmistakably is the one
	isRecord func(jsontext.Value) bool      // whether an object that stands where an array belongs is a record
	instead  func(list) (list, bool)        // what to take for the learned list; nil: always itself
}

// find is the one place where it is decided what an answer holds: a list, nothing by its own count (then the list has no
// text), or something else. What is configured is the only place. What was learned comes first, and only there is an
// empty list of any name none; records elsewhere are taken, an empty list elsewhere is not.
func (x *exchange) find(e *envelope, s sought, configured string) (list, error) {
	if e.unhappy() {
		return list{}, x.drift(s.what, "an answer that declares its own failure: "+describe(e.root))
	}
	shape := x.expect.Shape
	if configured != "" {
		shape = Shape{Path: configured, Known: true}
	}
	l, ok := e.locate(s, shape, configured != "")
	if ok && x.scan.usual && string(l.path) == x.scan.at {
		l.parts = x.scan.parts
	}
	l.count = l.length()
	switch {
	case ok && l.count > maxRecords:
		return list{}, x.drift("a page of records", "more records than fit any page")
	case ok:
		return l, nil
	case e.countsNone(shape, x.header):
		return list{}, nil
	case shape.Known:
		return list{}, x.drift(s.what+" at "+printablePath(shape.Path), describe(e.root))
	}
	return list{}, x.drift(s.what, describe(e.root))
}

func (e *envelope) locate(s sought, shape Shape, only bool) (list, bool) {
	if shape.Known {
		if l, ok := e.at(jsontext.Pointer(shape.Path)); ok && s.isThere(l) {
			if only || s.instead == nil {
				return l, true
			}
			return s.instead(l)
		}
		if only {
			return list{}, false
		}
	}
	if l, ok := s.anywhere(shape.Known); ok {
		return l, true
	}
	if l, ok := e.lone(s); ok {
		return l, true
	}
	if shape.Known {
		return list{}, false
	}
	return s.none()
}

// isThere says whether an expected place holds the list, or one record in place of it.
func (s sought) isThere(l list) bool {
	switch l.raw.Kind() {
	case jsontext.KindBeginArray:
		return isEmpty(l.raw) || s.fits(l)
	case jsontext.KindBeginObject:
		return s.isRecord(l.raw)
	}
	return false
}

// lone is the one record that stands where a list of a known name belongs, at the root or one level down.
func (e *envelope) lone(s sought) (list, bool) {
	var found []list
	for _, f := range e.top {
		l := list{raw: e.root}.below(e.top, f)
		found = append(found, s.lone(l)...)
		inner := parse(f.value)
		for _, f := range inner {
			found = append(found, s.lone(l.below(inner, f))...)
		}
	}
	if len(found) != 1 {
		return list{}, false
	}
	return found[0], true
}

func (s sought) lone(l list) []list {
	isNamed := named(l.name, s.names) || named(l.name, genericNames)
	if !isNamed || l.raw.Kind() != jsontext.KindBeginObject || !s.isRecord(l.raw) {
		return nil
	}
	return []list{l}
}

// printablePath is a path as it may stand in an error: names that do not look like names are not repeated.
func printablePath(path string) string {
	if path == "" {
		return "the root"
	}
	p := jsontext.Pointer(path)
	for token := range p.Tokens() {
		if !looksLikeName.MatchString(token) {
			return "the place known"
		}
	}
	return path
}

// unhappy says whether an answer declares its own failure, status 200 or not.
func (e *envelope) unhappy() bool {
	for o := range e.heads() {
		for _, f := range o {
			if saysFailure(f.name, f.value) {
				return true
			}
		}
	}
	return false
}

func saysFailure(name string, value jsontext.Value) bool {
	switch {
	case named(name, errorNames):
		return !isEmpty(value) && !saysNo(value)
	case named(name, failureNames):
		return saysYes(value)
	case named(name, successNames):
		return saysNo(value)
	case named(name, codeNames):
		return isFailureCode(value)
	case named(name, []string{"status"}):
		return isFailureStatus(value)
	}
	return false
}

var (
	errorNames   = []string{"error", "errors", "fault", "exception"}
	failureNames = []string{"isError", "hasError", "hasErrors", "failed"}
	successNames = []string{"success", "successful", "isSuccess", "ok"}
	codeNames    = []string{"statusCode", "httpStatus", "code", "errorCode"}
)

func saysNo(value jsontext.Value) bool {
	s, _ := scalar(value)
	return value.Kind() == jsontext.KindFalse || s == "0" || SameName(s, "false")
}

func saysYes(value jsontext.Value) bool {
	s, _ := scalar(value)
	return value.Kind() == jsontext.KindTrue || s == "1" || SameName(s, "true")
}

// isFailureCode says whether a value is an HTTP status of an error.
func isFailureCode(value jsontext.Value) bool {
	s, _ := scalar(value)
	n, ok := natural(s)
	return ok && n >= 400 && n <= 599
}

func isFailureStatus(value jsontext.Value) bool {
	if s, ok := text(value); ok && looksLike(s, "error", "fail", "forbidden", "unauthorized", "denied") {
		return !strings.HasPrefix(plain(s), "no") // NO_ERROR
	}
	for name, inner := range members(value) {
		if saysFailure(name, inner) {
			return true
		}
	}
	return isFailureCode(value)
}

// otherRecords says whether a list with a known name holds objects: then an empty one beside it proves nothing.
func (e *envelope) otherRecords() bool {
	return slices.ContainsFunc(e.lists, func(l list) bool {
		return hasObjects(l) && (l.depth == 0 || named(l.name, insertionNames) || named(l.name, genericNames))
	})
}
