// Package teams is the receiver for Microsoft Teams: it posts Adaptive Cards to a workflow that
// begins with "When a Teams webhook request is received". It lays out the messages of package
// message as a card, and knows the error codes of workflows. Package forward posts, decides when to
// send, how often to try and what to remember.
//
// A workflow responds with 202 before it posts the card, and does not report it if Teams then
// rejects the card. So every card is within the limits that Teams documents, and uses the oldest
// version of the format that has the elements we need.
//
// Texts of strangers are in TextRun elements, where Markdown is not interpreted, as it is in
// TextBlock and FactSet. Only the functions {{DATE()}} and {{TIME()}} are interpreted there; they
// are broken up. The title of a button is not markup either.
//
// Whoever knows the workflow's address can post to the channel. It is in no error, no log and no
// Traits; an error names the host at most, and of a response only codes that are listed here.
package teams

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"doorbell/events/forward"
	"doorbell/events/forward/message"
)

// New makes a receiver, without a network call. It fails if the address is not that of a workflow;
// the error names the host at most.
func New(h forward.Hook, o message.Options) (*forward.Messenger, error) {
	m, err := forward.NewMessenger(h, forward.Service{
		Word: code, Words: codes, Renew: "turn the workflow on in Teams, or create a new one",
		Render: func(d forward.Delivery) []byte { return render(message.Write(d.Events, d.Test, o)) },
		Check:  checkAddress,
	})
	if err != nil {
		return nil, fmt.Errorf("teams: %w", err)
	}
	return m, nil
}

func checkAddress(u *url.URL) error {
	host := strings.ToLower(u.Hostname())
	ends := func(domain string) bool { return strings.HasSuffix("."+host, "."+domain) }
	switch {
	case ends("webhook.office.com"):
		return errors.New("the address is that of a connector, which Microsoft has retired; create a workflow in Teams that posts to a channel when a webhook request is received")
	case (ends("logic.azure.com") || ends("powerplatform.com")) && u.Query().Get("sig") == "":
		return errors.New("the end of the address is missing, which is its signature (sig=…); copy all of it, and quote it in a shell")
	}
	return nil
}

// codes are error codes of workflows. Most statuses say enough; these are about the workflow though
// their status, 400, is usually about the request. All our messages have the same form: if the
// schema of a workflow rejects one, it rejects all.
var codes = map[string]forward.About{
	"WorkflowTriggerIsNotEnabled":  forward.OfWebhook, // turned off, or deleted
	"WorkflowTriggerNotFound":      forward.OfWebhook,
	"TriggerInputSchemaMismatch":   forward.OfWebhook,
	"MissingApiVersionParameter":   forward.OfWebhook, // of an address that was cut
	"InvalidApiVersionParameter":   forward.OfWebhook,
	"UnsupportedApiVersion":        forward.OfWebhook,
	"DirectApiRequestNotSupported": forward.OfWebhook,
}

// code finds the code of an error in a response: {"error":{"code":"…","message":"…"}}.
func code(body []byte) string {
	var b struct {
		Error struct {
			Code string `json:"code"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &b) != nil {
		return ""
	}
	return b.Error.Code
}
