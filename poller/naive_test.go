package poller_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"sync"

	"golang.org/x/sync/errgroup"
)

// naive is what somebody would write instead: ask for everything, remember the ids that were seen in a file of JSON.
type naive struct {
	client    *http.Client
	base, key string
	file      string

	mu   sync.Mutex
	seen map[string]bool
}

type naiveInsertion struct {
	Reference string `json:"propertyReferenceId"`
}

type naiveRequest struct {
	ID        string `json:"id"`
	CreatedAt string `json:"createdAt"`
	Email     string `json:"email"`
	Message   string `json:"message"`
}

func get[T any](n *naive, path string) ([]T, error) {
	req, err := http.NewRequest(http.MethodGet, n.base+path, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", "ApiKey "+n.key)
	resp, err := n.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var page struct{ Results []T }
	err = json.NewDecoder(resp.Body).Decode(&page)
	return page.Results, err
}

// sweep asks for everything once, as many at a time as it has workers, and saves what it has seen.
func (n *naive) sweep(agency string, size, workers int) error {
	before := len(n.seen)
	var polls errgroup.Group
	polls.SetLimit(workers)
	for page := 1; ; page++ {
		all, err := get[naiveInsertion](n, fmt.Sprintf("/insertion-funnel/integration/%s/insertions?pageSize=%d&page=%d", agency, size, page))
		if err != nil || len(all) == 0 {
			if err = errors.Join(err, polls.Wait()); err != nil || len(n.seen) == before {
				return err
			}
			break
		}
		for _, i := range all {
			polls.Go(func() error { return n.poll(i.Reference) })
		}
	}
	b, err := json.Marshal(n.seen)
	if err != nil {
		return err
	}
	return os.WriteFile(n.file, b, 0o600)
}

func (n *naive) poll(reference string) error {
	all, err := get[naiveRequest](n, "/ubm-contact-request/property/"+url.PathEscape(reference)+"?sortBy=createdAt&sortOrder=desc&numberOfItemsPerPage=20")
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, r := range all {
		n.seen[r.ID] = true
	}
	return err
}
