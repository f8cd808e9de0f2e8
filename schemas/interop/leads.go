// Leads rings once for every new contact request: NATS_URL=nats://127.0.0.1:4222 go run leads.go
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// lead is the part of a payload that we need. Members that are not named here are ignored, including those of later versions.
type lead struct {
	AgencyID            string `json:"agencyId"`
	PropertyReferenceID string `json:"propertyReferenceId"`
	ContactRequestID    string `json:"contactRequestId"`
	Origin              string `json:"origin"`
	Truncated           bool   `json:"truncated"`
	Contact             struct {
		FirstName string `json:"firstName"`
		Email     string `json:"email"`
		Message   string `json:"message"` // untrusted: escape it wherever it is shown
	} `json:"contact"`
}

// done has the ce-id of each processed event. In production, use a unique column, written in one transaction with the lead.
var done = map[string]bool{}

func main() {
	nc, err := nats.Connect(cmp.Or(os.Getenv("NATS_URL"), nats.DefaultURL), nats.MaxReconnects(-1))
	if err != nil {
		log.Fatal(err)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		log.Fatal(err)
	}
	consumer, err := js.CreateOrUpdateConsumer(context.Background(), "LISTINGS", jetstream.ConsumerConfig{
		Durable:        "leads", // NATS keeps our position under this name
		FilterSubjects: []string{"listings.v1.*.contact_request.created", "listings.v1.*.contact_request.redacted"},
		AckPolicy:      jetstream.AckExplicitPolicy,
		MaxAckPending:  1, // one at a time, so that redelivery keeps the order
	})
	if err != nil {
		log.Fatal(err)
	}
	messages, err := consumer.Messages(jetstream.PullMaxMessages(1))
	if err != nil {
		log.Fatal(err)
	}
	for {
		message, err := messages.Next()
		if err != nil {
			log.Fatal(err)
		}
		if err := take(message.Headers(), message.Data()); err != nil {
			log.Print(err) // the event, never the person: payloads contain personal data
			_ = message.NakWithDelay(time.Minute)
			continue
		}
		_ = message.Ack() // if it is lost, the event is delivered again with the same ce-id
	}
}

func take(header nats.Header, data []byte) error {
	id := header.Get("ce-id")
	if done[id] {
		fmt.Println("again:", id)
		return nil
	}
	var l lead
	if err := json.Unmarshal(data, &l); err != nil {
		return fmt.Errorf("event %s cannot be read", id)
	}
	switch header.Get("ce-type") {
	case "contact_request.redacted":
		fmt.Println("erase the person of", l.ContactRequestID)
	case "contact_request.created":
		if l.Origin != "live" {
			fmt.Println("known before the watch began:", l.ContactRequestID)
			break
		}
		fmt.Println("ring:", l.ContactRequestID, "wrote to", l.AgencyID, "about", l.PropertyReferenceID)
		if l.Truncated {
			fmt.Println("parts of it were left out")
		}
	}
	done[id] = true
	return nil
}
