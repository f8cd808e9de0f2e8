package check

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"

	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
	"doorbell/cmd/doorbell/options"
	"doorbell/cmd/doorbell/shape"
	"doorbell/poller"
	"doorbell/poller/listings"
	"doorbell/poller/watch"
)

// usualShape is how many requests there are where none is refused.
const usualShape = 4

// maxShapeAgencies is how many agencies are requested at most, until one opens.
const maxShapeAgencies = 2

// Shape requests each operation once or twice and describes the responses without their values: the
// first page of an agency's list and the page after it, then the contact requests of two
// insertions. Sizes that are refused take further requests. What is halted is not requested, and
// beside a running daemon at most one request a second is begun. A refusal is described, too. The
// error says why there is no response.
func Shape(ctx context.Context, o Options) (shape.File, error) {
	f := shape.File{Version: shape.Version, Program: "doorbell " + o.Version, Note: shape.Note}
	c := &checker{Options: o, report: newReport(), halts: map[string]halt{}, places: map[string]listings.Place{}}
	if !c.findDaemon(ctx) || c.report.count(LevelFail) > 0 {
		c.report.conclude()
		for _, l := range c.report.Lines {
			if l.Level == LevelFail {
				return f, &exit.Error{Code: c.report.ExitCode, Err: errors.New(l.Text), Hint: l.Remedy}
			}
		}
	}
	p := options.Poller(c.Config, c.Version)
	perSecond := p.RequestsPerSecond
	if c.daemon != nil { // its own requests are not counted here
		perSecond = min(perSecond, 1)
	}
	r := newRecorder(p.API, perSecond)
	p.API.Gate, p.API.Transport = r, r
	client, err := listings.New(p.API)
	if err != nil {
		return f, exit.Config(err, "")
	}
	if wait := time.Duration(usualShape / perSecond * float64(time.Second)); wait > 3*time.Second {
		fmt.Fprintf(c.Progress, "doorbell: at most %g requests a second; this takes about %s\n", perSecond, ops.Span(wait))
	}
	err = c.shapes(ctx, client, p, r)
	if ctx.Err() != nil {
		return f, exit.Failed(errors.New("interrupted"), "")
	}
	if f.Responses = r.responses; len(f.Responses) == 0 {
		return f, exit.Failed(err, "nothing was written: there is no response to describe")
	}
	return f, nil
}

// shapes makes the requests. Its error counts only where nothing was recorded.
func (c *checker) shapes(ctx context.Context, client *listings.Client, p poller.Options, r *recorder) error {
	failed := errors.New("polling has stopped for every agency, because of a refusal, and no request was sent; doorbell status shows it")
	asked := 0
	for _, a := range p.Agencies {
		if _, halted := c.halts[a.ID]; halted {
			continue
		}
		if asked++; asked > maxShapeAgencies {
			break
		}
		o := listings.WalkOptions{Filter: p.Filter, Place: c.places[a.ID]}
		page, err := firstPage(ctx, client, a, o)
		if err != nil {
			failure := failureOf(err)
			failed = errors.New(failure.text)
			if failure.class == watch.ClassBusy || failure.class == watch.ClassDown || ctx.Err() != nil {
				break
			}
			continue
		}
		second, err := client.Insertions(ctx, a.Key, a.ID, listings.InsertionsQuery{PageSize: listings.PageSize, Page: 1, Other: p.Filter, Place: page.Place()})
		if err == nil && sameInsertions(page, second) {
			r.responses[len(r.responses)-1].Same = true
		}
		if err != nil && (failureOf(err).class == watch.ClassBusy || failureOf(err).class == watch.ClassRefused) || len(page.Insertions) == 0 {
			break
		}
		for _, n := range slices.Compact([]int{0, len(page.Insertions) / 2}) {
			_, err := client.ContactRequests(ctx, a.Key, a.ID, page.Insertions[n].Reference, listings.ContactRequestsQuery{
				NumberOfItemsPerPage: 100, SortBy: "createdAt", SortOrder: "desc",
			})
			if err != nil && slices.Contains([]watch.Class{watch.ClassRefused, watch.ClassBusy, watch.ClassDown}, failureOf(err).class) {
				break
			}
		}
		break
	}
	return failed
}

// sameInsertions reports whether two pages show the same insertions.
func sameInsertions(a, b *listings.InsertionsPage) bool {
	return slices.EqualFunc(a.Insertions, b.Insertions, func(x, y listings.Insertion) bool { return x.Reference == y.Reference })
}

// recorder lets requests pass at even distances and describes what comes back.
type recorder struct {
	*spacing
	next      http.RoundTripper
	maxBody   int64
	request   listings.Request
	responses []shape.Response
}

func newRecorder(o listings.Options, perSecond float64) *recorder {
	r := &recorder{spacing: newSpacing(perSecond), next: o.Transport, maxBody: o.MaxBody}
	if r.maxBody <= 0 {
		r.maxBody = 32 << 20
	}
	if r.next == nil {
		r.next = listings.NewTransport(listings.TransportOptions{Timeout: o.Timeout})
	}
	return r
}

// Wait notes what the next request is about.
func (r *recorder) Wait(ctx context.Context, request listings.Request) error {
	r.request = request
	return r.spacing.Wait(ctx, request)
}

// RoundTrip reads a response to its end, describes it, and hands it on. One that breaks off is not
// described.
func (r *recorder) RoundTrip(request *http.Request) (*http.Response, error) {
	resp, err := r.next.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	raw, broken := io.ReadAll(io.LimitReader(resp.Body, r.maxBody+1))
	resp.Body.Close()
	copied := *resp
	copied.Body = io.NopCloser(bytes.NewReader(raw))
	resp.Body = io.NopCloser(io.MultiReader(bytes.NewReader(raw), brokenAt{broken}))
	if broken != nil {
		return resp, nil
	}
	body, err := listings.ReadBody(&copied, r.maxBody)
	if err != nil {
		body = nil // an encoding that nobody asked for, or a bomb: its header is described
	}
	query, _ := url.ParseQuery(request.URL.RawQuery)
	r.responses = append(r.responses, shape.Describe(shape.Asked{
		Operation: string(r.request.Operation), Agency: r.request.AgencyID, Reference: r.request.Reference, Query: query,
	}, resp.StatusCode, resp.Header, body))
	return resp, nil
}

// brokenAt ends a body as the original ended.
type brokenAt struct{ err error }

func (b brokenAt) Read([]byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	return 0, io.EOF
}
