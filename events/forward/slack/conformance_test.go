package slack_test

import (
	"testing"
	"time"

	"doorbell/events/forward/forwardtest"
)

func TestItIsAReceiverLikeAllOthers(t *testing.T) {
	s := chat.Suite(forwardtest.Reply{Status: 200, Body: "ok", Want: forwardtest.Done}, []forwardtest.Reply{
		{Status: 400, Body: "invalid_payload", Want: forwardtest.Refused},
		{Status: 404, Body: "no_service", Want: forwardtest.Waits},
		{Status: 503, Header: map[string]string{"Retry-After": "7"}, Want: forwardtest.Retry, After: 7 * time.Second},
	})
	s.Secrets = []string{"sEcReT", secretPath}
	forwardtest.Receiver(t, s)
}
