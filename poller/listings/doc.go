// Package listings is the client of the listings API. It sends a request and turns the response
// into records, or into an error that says what kind of response it was.
//
//	Client.Insertions, Client.ContactRequests   one request, one page
//	Client.Walk                                 all pages of an agency, and whether they are complete
//
// The path of a request, and the files of each step:
//
//	Gate.Wait ─► address, header ─► net/http ─► status ─► body, bounded, unpacked ─► decode ─► find ─► records
//	request.go                      transport.go errors.go request.go                json.go   find.go record.go
//
// The API does not document its responses, so the package finds the records. Every place where they
// may be gets one rank: by what it contains, whether records were there before, and what it is
// called. The highest one wins, and a tie decides nothing. find.go decides; all known names are in
// names.go, and envelope.go reads what a response says around its records.
//
// The envelope is read strictly, records leniently. A response that is no list (HTML, null, an
// error object, a cut body, the list of another insertion) is a [DriftError], never an empty list.
// What is wrong inside a record is named in its Defects, and the record is still read. Numbers keep
// their text.
//
// No error contains anything that was read, nor the key: a [Key] cannot print itself. Headers,
// bodies, depth, time and pages are bounded, bodies before and after unpacking. No redirect is
// followed.
//
// The package knows no events and no store, and never decides when to request again: the caller
// backs off. A [Gate] admits every request. Everything is safe for concurrent use except a [Walk].
package listings
