package listings

import "github.com/go-json-experiment/json/jsontext"

// Place is where the records of an operation stood in earlier responses. What a response shows is
// compared with it; see find.
type Place struct {
	Known bool
	Path  string // JSON pointer to the list; "" is the root
}

// Place is where the records of a response stand.
func (e Envelope) Place() Place { return Place{Known: e.Found, Path: e.Path} }

// Printable is the path without names that do not look like one: such a name may be a value.
func (p Place) Printable() string {
	var path jsontext.Pointer
	for token := range jsontext.Pointer(p.Path).Tokens() {
		path = path.AppendToken(printableName(token))
	}
	return string(path)
}
