package cli

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/ops/metrics"
	"doorbell/poller/sandbox"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

func TestABusyDaemonTellsItsFiguresAndNobodyElses(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100")
	a := s.Open(t, "off")
	doorbelltest.RunUntilTheEnd(t, a)
	handler := metrics.Handler(a.Verbs().Status)
	scrape := func() string {
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		if w.Code != http.StatusOK {
			t.Fatalf("%d: %s", w.Code, w.Body)
		}
		return w.Body.String()
	}
	tells := func(what string, wanted ...string) string {
		t.Helper()
		var text string
		doorbelltest.Eventually(t, what, func() bool {
			text = scrape()
			for _, line := range wanted {
				if !strings.Contains(text, "\n"+line) {
					return false
				}
			}
			return true
		})
		return text
	}
	tells("a watch", "doorbell_ready 1", `doorbell_agency_state{agency="A100",state="watching"} 1`)
	s.Ring(t, "A100")
	tells("a lead", `doorbell_lead_latency_seconds_count{agency="A100"} 1`, `doorbell_requests_total{operation="contact_requests",outcome="200"} `)
	if err := s.Model.DeactivateKey(doorbelltest.TestKey); err != nil {
		t.Fatal(err)
	}
	text := tells("a halt", `doorbell_halts{agency="A100",scope="agency"} 1`, `doorbell_requests_total{operation="insertions",outcome="403"} 1`,
		`doorbell_event_log_pending_events{agency="A100"} 0`)
	if !strings.Contains(text, "\ndoorbell_ready 1\n") {
		t.Error("a halted agency makes it not ready")
	}
	doorbelltest.HoldsNobody(t, text)
	if strings.Contains(text, sandbox.Marker) || strings.Contains(text, doorbelltest.TestKey) {
		t.Error("a person or a key is told")
	}
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if strings.HasPrefix(p.Metric, "doorbell_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	began := time.Now()
	scrape()
	t.Logf("a scrape takes %s, of %d bytes", time.Since(began), len(text))
}
