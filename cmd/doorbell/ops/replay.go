package ops

import (
	"context"
	"encoding/json"
	"net/http"
)

// ReplayRequest is the body of POST /replay: which events of the log are published once more, under the name of which job.
type ReplayRequest struct {
	Query EventQuery `json:"query"`
	Total int        `json:"total"` // as counted; only reported
	Job   string     `json:"job"`
	Rate  float64    `json:"rate"` // events a second; 0: as fast as they are acknowledged
}

// ReplayProgress is how far a replay is.
type ReplayProgress struct {
	Job          string `json:"job"`
	Subject      string `json:"subject"` // of all that it publishes
	Stream       string `json:"stream"`
	Total        int    `json:"total"`
	Published    int    `json:"published"`
	AlreadyThere int    `json:"alreadyThere"` // published by an earlier run of the job
}

// serveReplay adds POST /replay, which reports while it goes on and ends when it is done, or when whoever asked has left.
func serveReplay(mux *http.ServeMux, v Verbs, places chan struct{}) {
	mux.HandleFunc("POST /replay", func(w http.ResponseWriter, r *http.Request) {
		var q ReplayRequest
		if !read(w, r, &q) {
			return
		}
		stream(w, places, func(send func(frame) error) error {
			return v.Replay(r.Context(), q, func(p ReplayProgress) error {
				report, err := json.Marshal(p)
				if err != nil {
					return err
				}
				return send(frame{Report: report})
			})
		})
	})
}

// Replay lets the daemon publish events of its log once more. It tells how far it is as it goes on, at the end for the last
// time. The replay stops when ctx ends.
func (c *Client) Replay(ctx context.Context, q ReplayRequest, told func(ReplayProgress) error) error {
	return c.reports(ctx, "/replay", q, func(report json.RawMessage) error {
		var p ReplayProgress
		if err := json.Unmarshal(report, &p); err != nil {
			return err
		}
		return told(p)
	})
}
