package slack_test

import (
	"testing"
	"time"

	"doorbell/events/forward/forwardtest"
)

func TestItIsAReceiverLikeAllOthers(t *testing.T) {
	s := chat.Suite(forwardtest.Reply{Status: 200, Body: "ok", Want: forwardtest.Done}, []forwardtest.Reply{
		{Status: 200, Body: "<html>log in</html>", Want: forwardtest.Done},
		{Status: 204, Want: forwardtest.Done},
		{Status: 400, Body: "invalid_payload", Want: forwardtest.Refused},
		{Status: 403, Body: "action_prohibited", Want: forwardtest.Waits},
		{Status: 403, Want: forwardtest.Waits},
		{Status: 404, Body: "no_service", Want: forwardtest.Waits},
		{Status: 404, Want: forwardtest.Waits},
		{Status: 410, Body: "channel_is_archived", Want: forwardtest.Waits},
		{Status: 429, Header: map[string]string{"Retry-After": "30"}, Want: forwardtest.Retry, After: 30 * time.Second},
		{Status: 500, Body: "rollup_error", Want: forwardtest.Retry},
		{Status: 503, Header: map[string]string{"Retry-After": "7"}, Want: forwardtest.Retry, After: 7 * time.Second},
	})
	s.Secrets = []string{"sEcReT", secretPath}
	forwardtest.Receiver(t, s)
}
