package poller_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"sync"
)

// naive is what somebody would write instead: ask for everything, remember the ids that were seen in a file of JSON.
type naive struct {
	client    *http.Client
	base, key string
	file      string
	news      func(id string)

	mu    sync.Mutex
	seen  map[string]bool
	dirty bool
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
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", path, resp.Status)
	}
	var page struct{ Results []T }
	err = json.NewDecoder(resp.Body).Decode(&page)
	return page.Results, err
}

// list yields the references of all pages to whoever polls.
func (n *naive) list(agency string, size int, to chan<- string) error {
	defer close(to)
	for page := 1; ; page++ {
		all, err := get[naiveInsertion](n, fmt.Sprintf("/insertion-funnel/integration/%s/insertions?pageSize=%d&page=%d", agency, size, page))
		if err != nil || len(all) == 0 {
			return err
		}
		for _, i := range all {
			to <- i.Reference
		}
	}
}

func (n *naive) poll(reference string) error {
	all, err := get[naiveRequest](n, "/ubm-contact-request/property/"+url.PathEscape(reference)+"?sortBy=createdAt&sortOrder=desc&numberOfItemsPerPage=20")
	if err != nil {
		return err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, r := range all {
		if !n.seen[r.ID] {
			n.seen[r.ID], n.dirty = true, true
			n.news(r.ID)
		}
	}
	return nil
}

// sweep asks for everything once, as many at a time as it has workers, and saves what it has seen.
func (n *naive) sweep(agency string, size, workers int) (failed error) {
	references := make(chan string, size)
	var all sync.WaitGroup
	var once sync.Once
	note := func(err error) {
		if err != nil {
			once.Do(func() { failed = err })
		}
	}
	for range workers {
		all.Go(func() {
			for r := range references {
				note(n.poll(r))
			}
		})
	}
	note(n.list(agency, size, references))
	all.Wait()
	if failed != nil || !n.dirty {
		return failed
	}
	n.dirty = false
	b, err := json.Marshal(n.seen)
	if err != nil {
		return err
	}
	return os.WriteFile(n.file, b, 0o600)
}
