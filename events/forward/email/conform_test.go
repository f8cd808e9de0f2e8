package email

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"doorbell/events/forward"
	"doorbell/events/forward/forwardtest"
)

// scripted opens a receiver whose server says something else at one step.
func scripted(step, says string) func(t *testing.T) forward.Receiver {
	return func(t *testing.T) forward.Receiver {
		return (&script{says: map[string]string{step: says}}).receiver(t, nil)
	}
}

func TestMailIsAReceiverLikeAnyOther(t *testing.T) {
	s := forwardtest.Suite{
		Works: func(t *testing.T) forwardtest.Place {
			p := new(post).open(t, "mail.agency.example", false, true)
			return forwardtest.Place{Receiver: p.receiver(t, nil), Took: func() (all []string) {
				for _, m := range p.taken() {
					h, parts := read(t, []byte(m.text))
					all = append(all, "Message-ID: "+h.Get("Message-ID")+"\n"+h.Get("Subject")+"\n"+parts["text/plain"]+parts["text/html"]+parts["application/xml"])
				}
				return all
			}, ID: func(m string) string {
				id, _, _ := strings.Cut(m, "\n")
				return id
			}}
		},
		Answers: []forwardtest.Answer{
			{Name: "taken", Open: scripted("x", ""), Want: forwardtest.Done},
			{Name: "451 to a recipient", Open: scripted("RCPT", "451 4.3.0 later"), Want: forwardtest.Retry},
			{Name: "550 to a recipient", Open: scripted("RCPT", "550 5.1.1 unknown"), Want: forwardtest.Waits, After: time.Minute},
			{Name: "550 to the sender", Open: scripted("MAIL", "550 5.7.1 no"), Want: forwardtest.Retry, After: time.Minute},
			{Name: "554 to the content", Open: scripted(".", "554 5.6.0 no"), Want: forwardtest.Refused},
			{Name: "cut after the content", Open: scripted(".", cutOff), Want: forwardtest.Retry},
			{Name: "421", Open: scripted("", "421 4.3.2 closing"), Want: forwardtest.Retry},
		},
		Silent: scripted("", silence),
		Away: func(t *testing.T) forward.Receiver {
			return newReceiver(t, func(o *Options) {
				o.Dial = func(ctx context.Context, network, _ string) (net.Conn, error) {
					return new(net.Dialer).DialContext(ctx, network, "127.0.0.1:1")
				}
			})
		},
		Secrets: []string{"agency.example", "office", "hunter2"},
		Check: func(t *testing.T, m string) {
			_, page, _ := strings.Cut(m, "<!DOCTYPE html>")
			page, _, _ = strings.Cut("<!DOCTYPE html>"+page, "<?xml")
			htmlIsOurs(t, page)
		},
	}
	forwardtest.Receiver(t, s)
}
