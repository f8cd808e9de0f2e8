package cli

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/poller/sandbox"
)

// TestALeadThatIsNudgedIsInTheFeedAtOnce, although its insertion is not due for hours.
func TestALeadThatIsNudgedIsInTheFeedAtOnce(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100")
	d := doorbelltest.Launch(t, s.With("DOORBELL_HTTP_TOKEN="+doorbelltest.PageToken, "DOORBELL_POLL_INTERVAL=10h", "DOORBELL_WALK_INTERVAL=10h"), "run")
	url := pageURL(t, s.Dir)
	ask := func(method, path, body string) (*http.Response, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, url+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+doorbelltest.PageToken)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer, string(text)
	}
	all := s.Model.Truth().Insertions
	doorbelltest.Eventually(t, "each insertion is polled", func() bool {
		return s.Model.Requests(sandbox.Filter{Operation: sandbox.OperationContactRequests}) >= len(all)
	})
	reference := all[2].Reference
	answer, text := ask("GET", "/v1/events?timeout=30s&type=watch.baselined", "")
	if !strings.Contains(text, "watch.baselined") {
		t.Fatalf("%s %s", answer.Status, text)
	}
	cursor := answer.Header.Get("doorbell-feed-cursor")

	id, err := s.Model.AddContactRequest("A100", reference, sandbox.ContactRequest{FirstName: "Nora", LastName: "Muster" + sandbox.Marker})
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(map[string]string{"agencyId": "A100", "propertyReferenceId": reference})
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	answer, text = ask("POST", "/v1/poll", string(body))
	if answer.StatusCode != http.StatusAccepted || !strings.HasPrefix(text, `{"waits":"poll"`) {
		t.Errorf("%s %s", answer.Status, text)
	}
	answer, text = ask("GET", "/v1/events?timeout=30s&type=contact_request.created&after="+cursor, "")
	if took := time.Since(begin); !strings.Contains(text, `"contactRequestId":"`+id+`"`) || took > 2*time.Second {
		t.Errorf("after %s: %s, %d bytes", took, answer.Status, len(text))
	}
	d.Stop(t)
}
