// Package listings is the client of the listings API: it asks, and makes of every answer either records or an error that
// says what kind of answer it was.
//
//	Client.Insertions, Client.ContactRequests ── one request, one page
//	Client.Walk ───────────────────────────────── all pages of an agency, and a verdict on whether they are all
//
//	Before ─► address, header ─► Attempt ─► net/http ─► status ─► bounded body, gunzip ─► decode ─► locate ─► canonical text ─► records
//	          exchange.go        transport.go           errors.go exchange.go             decode.go locate.go record.go
//
// The API does not show its answers anywhere, so the package learns where the records are: insertions by the reference
// that each of them holds, contact requests by what their list is called or looks like. All names that it knows stand in
// vocabulary.go. An answer that the caller knows is not read again: it is not decoded where its body is the same, and its
// records are left alone where their canonical text is. The package is strict about the envelope and lenient about a record.
// An answer that is no list (HTML, null, an error object, a cut body, the list of another insertion) is a [DriftError] and
// never an empty list; what is wrong inside one record is named in its Defects, and the record is read all the same. Numbers
// are never turned into floats.
//
// Nothing that was read ever stands in an error, and neither does the key: a [Key] cannot print itself. Everything is
// bounded: headers, bodies before and after unpacking, depth, time, pages.
//
// It does not know events or a store, and does not decide when to ask again: a [Gate] stands in front of every
// request and of each time that net/http sends it, and whoever calls backs off. No redirect is followed.
// All of it is safe for concurrent use, except a [Walk], which is one reading.
package listings
