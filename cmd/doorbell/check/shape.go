package check

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"

	"doorbell/cmd/doorbell/exit"
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

// maxBody bounds a response, as it comes and as it is unpacked.
const maxBody = 32 << 20

// Shape requests each operation once or twice and describes the responses without their values: the
// first page of an agency's list and the page after it, then the contact requests of two
// insertions. Sizes that are refused take further requests. What is halted is not requested, and
// beside a running daemon at most one request a second is begun. A refusal is described, too. The
// error says why there is no response.
func Shape(ctx context.Context, o Options) (shape.File, error) {
	f := shape.File{Version: shape.Version, Program: "doorbell " + o.Version, Note: shape.Note}
	c := newChecker(o)
	if c.findDaemon(ctx); !c.report.OK {
		last := c.report.Lines[len(c.report.Lines)-1]
		return f, &exit.Error{Code: c.report.ExitCode, Err: errors.New(last.Text), Hint: last.Remedy}
	}
	p := options.Poller(c.Config, c.Version)
	r := &recorder{
		spacing: c.pace(p.RequestsPerSecond, usualShape),
		next:    listings.NewTransport(listings.TransportOptions{Timeout: p.API.Timeout, CAs: p.API.CAs}),
	}
	p.API.Gate, p.API.Transport, p.API.MaxBody = r, r, maxBody
	client, err := listings.New(p.API)
	if err != nil {
		return f, exit.Config(err, "")
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
	agencies := slices.DeleteFunc(p.Agencies, func(a poller.AgencyKeys) bool {
		_, halted := c.halts[a.ID]
		return halted
	})
	failed := errors.New("polling has stopped for every agency, because of a refusal, and no request was sent; doorbell status shows it")
	for _, a := range agencies[:min(len(agencies), maxShapeAgencies)] {
		page, err := firstPage(ctx, client, a, listings.WalkOptions{Filter: p.Filter, Place: c.places[a.ID]})
		if err == nil {
			c.shapesOf(ctx, client, p, r, a, page)
			return nil
		}
		f := failureOf(err)
		if failed = errors.New(f.text); f.ends() && f.class != watch.ClassRefused {
			break
		}
	}
	return failed
}

// shapesOf requests what an agency has beside its first page, until a response forbids more.
func (c *checker) shapesOf(ctx context.Context, client *listings.Client, p poller.Options, r *recorder, a poller.AgencyKeys, page *listings.InsertionsPage) {
	second, err := client.Insertions(ctx, a.Key, a.ID, listings.InsertionsQuery{PageSize: listings.PageSize, Page: 1, Other: p.Filter, Place: page.Place()})
	if err == nil && sameInsertions(page, second) {
		r.responses[len(r.responses)-1].Same = true
	}
	for _, n := range slices.Compact([]int{0, len(page.Insertions) / 2}) {
		if failureOf(err).ends() || len(page.Insertions) == 0 {
			return
		}
		_, err = client.ContactRequests(ctx, a.Key, a.ID, page.Insertions[n].Reference, listings.ContactRequestsQuery{
			NumberOfItemsPerPage: 100, SortBy: "createdAt", SortOrder: "desc",
		})
	}
}

// sameInsertions reports whether two pages show the same insertions.
func sameInsertions(a, b *listings.InsertionsPage) bool {
	return slices.EqualFunc(a.Insertions, b.Insertions, func(x, y listings.Insertion) bool { return x.Reference == y.Reference })
}

// recorder lets requests pass at even distances and describes what comes back.
type recorder struct {
	*spacing
	next      http.RoundTripper
	request   listings.Request
	responses []shape.Response
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
	raw, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	resp.Body.Close()
	if err != nil {
		return nil, err
	}
	copied := *resp
	copied.Body, resp.Body = io.NopCloser(bytes.NewReader(raw)), io.NopCloser(bytes.NewReader(raw))
	body, err := listings.ReadBody(&copied, maxBody)
	if err != nil {
		body = nil // an encoding that was not asked for, or a bomb: its header is described
	}
	r.responses = append(r.responses, shape.Describe(shape.Asked{
		Operation: string(r.request.Operation), Agency: r.request.AgencyID, Reference: r.request.Reference, Query: request.URL.Query(),
	}, resp.StatusCode, resp.Header, body))
	return resp, nil
}
