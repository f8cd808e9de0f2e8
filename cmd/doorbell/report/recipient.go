package report

import "context"

// Recipient gets the report of each week.
type Recipient struct {
	Name     string // tells recipients apart, and is no address
	Includes func(agency string) bool
	// Send sends a report. The error names no address.
	Send func(ctx context.Context, r Report) error
}
