package ops

import (
	"context"
	"encoding/json"
	"net/http"
)

// StreamVerbs compare the event log with the stream; both may take long. Their answers are JSON of the caller's making: this
// room knows no relay.
type StreamVerbs struct {
	Compare func(ctx context.Context) (any, error)
	Resend  func(ctx context.Context, agencyID string) (sent int, err error)
}

// ResendRequest is the body of POST /resend.
type ResendRequest struct {
	AgencyID string `json:"agencyId"`
}

// ResendAnswer is the answer to it.
type ResendAnswer struct {
	Sent int `json:"sent"` // events
}

func (v StreamVerbs) handle(mux *http.ServeMux) {
	mux.HandleFunc("POST /compare", func(w http.ResponseWriter, r *http.Request) {
		found, err := v.Compare(r.Context())
		answer(w, found, err)
	})
	mux.HandleFunc("POST /resend", func(w http.ResponseWriter, r *http.Request) {
		var q ResendRequest
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10)).Decode(&q); err != nil || q.AgencyID == "" {
			answer(w, nil, errBody)
			return
		}
		sent, err := v.Resend(r.Context(), q.AgencyID)
		answer(w, ResendAnswer{Sent: sent}, err)
	})
}

// Compare asks for the comparison of log and stream, which takes as long as both are.
func (c *Client) Compare(ctx context.Context, into any) error {
	patient := Client{http.Client{Transport: c.http.Transport}} // ctx alone ends it
	return patient.ask(ctx, http.MethodPost, "/compare", nil, into)
}

// Resend lets an agency's events that the stream lacks be sent again.
func (c *Client) Resend(ctx context.Context, agencyID string) (sent int, err error) {
	patient := Client{http.Client{Transport: c.http.Transport}}
	var a ResendAnswer
	err = patient.ask(ctx, http.MethodPost, "/resend", ResendRequest{AgencyID: agencyID}, &a)
	return a.Sent, err
}
