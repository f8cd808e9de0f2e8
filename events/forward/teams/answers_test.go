package teams_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"doorbell/events/forward"
	"doorbell/events/forward/forwardtest"
	"doorbell/events/forward/message"
	"doorbell/events/forward/teams"
)

func TestItIsAReceiverLikeAllOthers(t *testing.T) {
	s := chat.Suite(forwardtest.Reply{Status: 202, Want: forwardtest.Done}, []forwardtest.Reply{
		{Status: 400, Body: `{"error":{"code":"InvalidRequestContent","message":"no"}}`, Want: forwardtest.Refused},
		{Status: 400, Body: `{"error":{"code":"WorkflowTriggerIsNotEnabled","message":"no"}}`, Want: forwardtest.Waits},
		{Status: 429, Header: map[string]string{"Retry-After": "30"}, Want: forwardtest.Retry, After: 30 * time.Second},
	})
	s.Secrets = []string{"sEcReT", "/workflows/"}
	forwardtest.Receiver(t, s)
}

// TestEveryAnswerMeansSomething: a status says what a response means, but for the codes of a workflow that takes nothing.
func TestEveryAnswerMeansSomething(t *testing.T) {
	coded := func(code string) string {
		return fmt.Sprintf(`{"error":{"code":%q,"message":"nora.beispiel@example.org sEcReT"}}`, code)
	}
	for _, c := range []struct {
		status     int
		body, want string
	}{
		{202, "", "nil"},
		{200, coded("Odd"), "nil"},
		{200, coded("WorkflowTriggerIsNotEnabled"), "not taken now: status 200, WorkflowTriggerIsNotEnabled: the webhook does not work any more; turn the workflow on in Teams, or make a new one"},
		{400, coded("WorkflowTriggerIsNotEnabled"), "not taken now: status 400, WorkflowTriggerIsNotEnabled: the webhook does not work any more; turn the workflow on in Teams, or make a new one"},
		{400, coded("TriggerInputSchemaMismatch"), "not taken now: status 400, TriggerInputSchemaMismatch: the webhook does not work any more; turn the workflow on in Teams, or make a new one"},
		{400, coded("nora.beispiel@example.org"), "refused: status 400"},
		{400, `{"error":"WorkflowTriggerIsNotEnabled"}`, "refused: status 400"},
		{400, "<html>nora</html>", "refused: status 400"},
		{401, coded("DirectApiAuthorizationRequired"), "not taken now: status 401"},
		{410, "", "not taken now: status 410: the webhook does not work any more; turn the workflow on in Teams, or make a new one"},
		{429, coded("RateLimit"), "not taken now: status 429"},
		{504, coded("GatewayTimeout"), "not taken now: status 504"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			io.WriteString(w, c.body)
		}))
		err := chat.At(t, server.URL).Send(t.Context(), forwardtest.OneLead(t))
		server.Close()
		got := "nil"
		if err != nil {
			got = err.Error()
		}
		if got != c.want {
			t.Errorf("%d %.40s: %s", c.status, c.body, got)
		}
		var retry *forward.Retry
		if of := errors.As(err, &retry) && retry.Receiver; of != (c.status < 500 && strings.HasPrefix(c.want, "not taken")) {
			t.Errorf("%d %.40s: of the receiver: %v", c.status, c.body, of)
		}
	}
}

func TestAnAddressThatIsNoWorkflowsIsRefusedAndNotQuoted(t *testing.T) {
	const azure = "https://prod-01.westeurope.logic.azure.com:443/workflows/sEcReT/triggers/manual/paths/invoke?api-version=2016-06-01"
	const platform = "https://x.01.environment.api.powerplatform.com:443/powerautomate/automations/direct/workflows/sEcReT/triggers/manual/paths/invoke"
	for url, want := range map[string]string{
		"":                                  "no address to post to",
		"sEcReT":                            "no address to post to",
		"http://sEcReT.example/workflows/x": "speaks plain http",
		"https://sEcReT.example":            "is missing",
		"https://flow.example/x#sEcReT":     "must not contain #",
		"https://acme.webhook.office.com/webhookb2/sEcReT/IncomingWebhook/a/b": "Microsoft has retired",
		azure:    "all of it",
		platform: "all of it",
	} {
		_, err := teams.New(forward.Hook{URL: url}, message.Options{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", url, err, want)
		} else if strings.Contains(err.Error(), "sEcReT") {
			t.Errorf("%q: the error quotes it: %v", url, err)
		}
	}
	for _, url := range []string{azure + "&sp=%2Ftriggers%2Fmanual%2Frun&sv=1.0&sig=x", platform + "?sig=x", "https://gateway.example/teams/7", "http://127.0.0.1:1/x\n"} {
		if _, err := teams.New(forward.Hook{URL: url}, message.Options{}); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
}
