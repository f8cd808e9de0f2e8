// Package listingstest contains complete responses of a listings API, good, odd and broken, with
// the meaning of each. The client is tested with them here; packages that use the client can serve
// them to all of their code.
//
// The responses are in text files. A section begins with its name, then come comments and one line
// with the request and the meaning of the response, then the response:
//
//	## name
//	# why
//	insertions, learned /odd, gzip => a#b##, c [invalid_utf8] ; total 2 ; path /odd
//	HTTP/1.1 200 OK
//	Content-Type: application/json
//
//	{"odd":[ … ]}
//
// Left of the arrow: the operation (insertions, contact_requests, or both: then it is two
// fixtures), where the records were found before (learned, - for the root), and how the body
// travels: by its length if nothing is written, chunked or until close, gzip (with the header) or
// packed (without), with garbage after it, without the last n bytes (cut n), without the last chunk
// (endless), in another character encoding than UTF-8 (in iso-8859-1). Bare: nothing is added to
// the response.
//
// Right of it: the references or ids in order, each with its defects (- is no id); none (an empty
// list); counted none (no list, but a total of 0); drift; status, with the kind of the body;
// transport; too large; not modified. Then, where they matter: the total (else there must be none),
// the path (- for the root), the number of unreadable elements, the Retry-After, what the response
// claims of its completeness (claims: more, last, pages, incomplete or none), and of the first
// contact request its time of creation, its e-mail and what else is read of the person (first,
// last, full, phone, message), of the first insertion its title.
//
// A response without a status line has status 200 and a Content-Type of JSON. Between ⟦ and ⟧ are
// bytes in hex, or a text and how many times it is repeated.
package listingstest

import (
	"embed"
	"net/http"
	"slices"
	"sync"
	"time"
)

// What the requests are about. Responses name other ones only by mistake.
const (
	Agency    = "A100"
	Reference = "a#b##"
)

// Operations.
const (
	Insertions      = "insertions"
	ContactRequests = "contact_requests"
)

// Kinds of outcomes.
const (
	Records   = "records" // also none of them
	Drift     = "drift"
	Status    = "status"
	Transport = "transport"
	TooLarge  = "too large"
)

// Fixture is one answer and what it means.
type Fixture struct {
	Name      string
	Operation string
	Learned   *string // JSON pointer to where records were found before; nil: nothing is known
	Wire      []byte  // all that goes over the connection, which is closed then
	Body      []byte  // of it, unpacked and whole, whatever happens to it on the way
	Want      Outcome
}

// Outcome is what an answer means.
type Outcome struct {
	Kind string

	// Of Records.
	List       []Record
	Total      int    // -1: none
	Path       string // JSON pointer
	Found      bool   // false: there is no list, only a total of 0
	Unreadable int
	Claims     string            // what is said of completeness, by the words above; empty: not said
	Created    *time.Time        // of the first contact request; zero: it has none; nil: not said
	Email      string            // of the first contact request; empty: not said
	Texts      map[string]string // of the first record, by the words above; others are not said

	// Of Status.
	Status     int
	BodyKind   string
	RetryAfter time.Duration
}

// Record is a reference or an id, with what is wrong with the record.
type Record struct {
	ID      string // empty: there is none
	Defects []string
}

//go:embed answers/*.txt
var answers embed.FS

// Fixtures returns all answers, those to both operations once for each. The caller may change the
// list, not what is in it.
func Fixtures() []Fixture { return slices.Clone(all()) }

var all = sync.OnceValue(func() []Fixture {
	files, err := answers.ReadDir("answers")
	if err != nil {
		panic(err)
	}
	var list []Fixture
	for _, f := range files {
		text, err := answers.ReadFile("answers/" + f.Name())
		if err != nil {
			panic(err)
		}
		list = append(list, parseFile(f.Name(), string(text))...)
	}
	return list
})

// ServeHTTP answers with the bytes of the fixture and closes the connection.
func (f Fixture) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err) // HTTP/2, or a recorder: there are no bytes to write
	}
	defer conn.Close()
	_, _ = conn.Write(f.Wire) // who has read enough goes away
}
