// Package listings is the client of the listings API. It sends a request and turns the answer into records, or into an error that
// says what kind of answer it was.
//
//	Client.Insertions, Client.ContactRequests   one request, one page
//	Client.Walk                                 all pages of an agency, and a verdict on whether they are all
//
// The way of a request, and where to find it:
//
//	Gate.Wait ─► address, header ─► Gate.Admit ─► net/http ─► status ─► body, bounded, unpacked ─► decode ─► locate ─► records
//	exchange.go                     transport.go  transport.go errors.go exchange.go                decode.go locate.go record.go
//
// The answers are not documented, so the package learns where the records are. Insertions are told by the reference in each of
// them; contact requests by the name of their list, or by what they look like. locate.go decides it, by two tables; all names that
// are known stand in vocabulary.go.
//
// An answer that the caller knows is not read again. The same body is not decoded, and records with the same canonical text are
// left alone.
//
// The envelope is read strictly, records leniently. An answer that is no list (HTML, null, an error object, a cut body, the list
// of another insertion) is a [DriftError], never an empty list. What is wrong inside a record is named in its Defects; the record
// is read all the same. Numbers are never turned into floats.
//
// No error holds anything that was read, nor the key: a [Key] cannot print itself. Headers, bodies, depth, time and pages are
// bounded, bodies before and after unpacking. No redirect is followed.
//
// The package knows no events and no store, and never decides when to ask again. A [Gate] stands in front of every request, and of
// each time that net/http sends one again; whoever calls backs off. All of it is safe for concurrent use, but for a [Walk].
package listings
