// Package sandbox is the listings API itself, as a small real server with a model behind it.
//
// It takes the place of a service that tests cannot call: both read-only operations with every
// documented parameter, the ApiKey scheme, 403 for every cause of refusal, keys that are linked to
// several agencies and can be rotated, references escaped in the path. Nothing can be written
// through the API. What the published description leaves open (envelopes, names, page numbering,
// page limits, formats of times) is a parameter, the [Rendering], because any guess would be one.
//
//	tests, Generator, Control ──▶ Model ◀── New(model, rendering): the API
//	                               │
//	                               └──▶ Truth, Requests, Log: what was true,
//	                                    what was served to whom, who requested what
//
// [Renderings] has the envelopes that such services use, as data; [Scenarios] are whole stories,
// played in time with the model's clock, virtual or real. [Generator] is an even flow of changes,
// without the young and old insertions, busy hours and hits of a market. That is made up in the
// tests of poller/schedule alone.
//
// A [Model] holds agencies, insertions, contact requests and keys. It is driven by method calls, by
// a [Generator] of synthetic people and properties, or from another process by [Control]. It
// forgets nothing: [Model.Truth] says when each insertion was visible and with which record, when
// each contact request was made and became visible, and how often each was served in a good
// response. A test can compare that with what a client believes.
//
// A response is good, and what it shows is "served", if it had status 200 and its last byte was
// handed to the connection. No server can know whether the client read it.
//
// [Model.SetFault] is the one hook that makes a response misbehave; it is called for every request
// and returns nil for a normal response. [FaultNamed] has ready misbehaviour, [Misbehave] selects
// the requests that get it. A fault that leaves nothing readable serves nothing.
//
// The package imports nothing else of this module, so that it cannot share the client's
// misunderstandings. It knows no events, keeps nothing on disk and opens no port.
//
// Every person in it is invented: surnames end in [Marker], mail goes to example.org, example.com
// or example.net, and the subscriber part of every phone number starts with 000. A test can search
// any output for them.
package sandbox
