package listings_test

import (
	"encoding/json"
	"testing"
	"time"

	"doorbell/poller/listings"
)

func TestTheMomentOfPublicationIsReadWhateverItIsCalled(t *testing.T) {
	c, err := listings.New(listings.Options{BaseURL: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	at := time.Date(2026, 11, 20, 8, 55, 0, 0, time.UTC)
	for record, want := range map[string]time.Time{
		`{"createdAt":"2026-11-20T09:55:00+0100"}`:                                         at,
		`{"createdAt":"2026-11-01T09:55:00+0100","published_at":"2026-11-20T08:55:00Z"}`:   at,
		`{"metadata":{"creationDate":1795164900000},"modifiedAt":"2026-11-21T08:55:00Z"}`:  at,
		`{"publication":{"publishedOn":"2026-11-20T09:55:00"}}`:                            at,
		`{"publishedAt":"soon","createdAt":"2026-11-20T08:55:00Z"}`:                        at,
		`{"timestamp":"2026-11-20T08:55:00Z","updatedAt":"2026-11-20T08:55:00Z"}`:          {},
		`{"createdAt":"yesterday"}`:                                                        {},
		`{"address":{"createdAt":"2026-11-20T08:55:00Z"},"publishedAt":null,"created":[]}`: {},
	} {
		if got := c.Published(listings.Insertion{Reference: "a#1##", Record: json.RawMessage(record)}); !got.Equal(want) {
			t.Errorf("%s: %v", record, got)
		}
	}
}
