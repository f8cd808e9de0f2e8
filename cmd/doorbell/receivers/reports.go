package receivers

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"time"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/report"
	"doorbell/events/forward"
	"doorbell/events/forward/email"
	"doorbell/events/forward/message"
)

// Reports returns who gets the report of each week by mail, each with the agencies whose leads it
// counts.
func Reports(c *config.Config) (list []report.Recipient, err error) {
	to := c.Forward.EmailReportTo
	var known []string
	for _, v := range to.All() {
		for _, address := range config.Recipients(v.Reveal()) {
			if slices.ContainsFunc(known, func(k string) bool { return strings.EqualFold(k, address) }) {
				continue
			}
			known = append(known, address)
			mailer, err := email.New(mailTo(c, address))
			if err != nil { // it is stricter than the configuration; its error quotes nothing
				return nil, &config.Error{Problems: []config.Problem{{Name: "DOORBELL_EMAIL_REPORT_TO", Text: "cannot be used: " + err.Error()}}}
			}
			sum := sha256.Sum256([]byte(strings.ToLower(address)))
			name := hex.EncodeToString(sum[:8])
			list = append(list, report.Recipient{
				Name: name,
				Includes: func(agency string) bool {
					return slices.ContainsFunc(config.Recipients(to.Revealed(agency)), func(one string) bool { return strings.EqualFold(one, address) })
				},
				Send: func(ctx context.Context, r report.Report) error { return mailReport(ctx, mailer, name, r) },
			})
		}
	}
	return list, nil
}

// mailReport sends the report of a week. The error names no address.
func mailReport(ctx context.Context, to *email.Receiver, name string, r report.Report) error {
	var table bytes.Buffer
	if err := r.WriteCSV(&table); err != nil {
		return err
	}
	day := r.To.In(message.Zone(r.Zone)).Format(time.DateOnly)
	err := to.SendLetter(ctx, email.Letter{
		Key:     "report " + r.To.UTC().Format(time.RFC3339) + " " + name,
		Subject: "Leads of the week until " + day + ": " + r.Headline(), Text: r.Text(),
		FileName: "leads-" + day + ".csv", FileType: "text/csv", File: table.Bytes(),
	})
	if err == nil {
		return nil
	}
	if !errors.As(err, new(*forward.Retry)) && !errors.As(err, new(*forward.Refused)) {
		return errors.New("the mail server failed") // another error may contain an address
	}
	return err
}
