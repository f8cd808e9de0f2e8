package check

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"slices"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/shape"
	"doorbell/poller"
	"doorbell/poller/listings"
	"doorbell/poller/watch"
)

// maxShapeAgencies is how many agencies are requested at most, until one opens.
const maxShapeAgencies = 2

// maxBody bounds a response, as it comes and as it is unpacked.
const maxBody = 32 << 20

// Shape requests each operation once or twice and describes the responses without their values: the
// first page of an agency's list and the page after it, then the contact requests of two
// insertions. Sizes that are refused take further requests. What is halted is not requested, and
// beside a running daemon at most one request a second is begun. A refusal is described, too.
func Shape(ctx context.Context, c *config.Config, version string) (shape.File, error) {
	f := shape.File{Version: shape.Version, Program: "doorbell " + version, Note: shape.Note}
	k := newChecker(c, version)
	if err := k.findDaemon(ctx); err != nil {
		return f, err
	}
	r := &recorder{
		checker: k,
		next:    listings.NewTransport(k.poll.API.Timeout, k.poll.API.CAs),
	}
	k.poll.API.Transport, k.poll.API.MaxBody = r, maxBody
	if err := k.connect(); err != nil {
		return f, err
	}
	agencies := slices.DeleteFunc(k.poll.Agencies, func(a poller.AgencyKeys) bool { return k.halts[a.ID] != nil })
	for _, a := range agencies[:min(len(agencies), maxShapeAgencies)] {
		page, err := k.firstPage(ctx, a)
		if err == nil {
			r.shapesOf(ctx, a, page)
		}
		if watch.Classify(err) != watch.ClassRefused {
			break
		}
	}
	if f.Responses = r.responses; len(f.Responses) == 0 || ctx.Err() != nil {
		return f, exit.Failed(
			errors.New("there is no response to describe, and nothing was written"),
			"doorbell check says why")
	}
	return f, nil
}

// shapesOf requests what an agency has beside its first page, until a response forbids more.
func (r *recorder) shapesOf(ctx context.Context, a poller.AgencyKeys, page *listings.InsertionsPage) {
	_, err := r.client.Insertions(ctx, a.Key, a.ID, listings.InsertionsQuery{
		PageSize: listings.PageSize, Page: 1, Other: r.poll.Filter, Place: page.Place(),
	})
	for _, i := range someOf(page) {
		if class := watch.Classify(err); class == watch.ClassRefused ||
			slices.Contains(endings, class) {
			return
		}
		_, err = r.client.ContactRequests(ctx, a.Key, a.ID, i.Reference,
			listings.ContactRequestsQuery{
				NumberOfItemsPerPage: 100, SortBy: "createdAt", SortOrder: "desc",
			})
	}
}

// recorder describes the responses to the requests of a checker.
type recorder struct {
	*checker
	next      http.RoundTripper
	responses []shape.Response
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
		Operation: string(r.request.Operation), Agency: r.request.AgencyID,
		Reference: r.request.Reference, Query: request.URL.Query(),
	}, resp.StatusCode, resp.Header, body))
	return resp, nil
}
