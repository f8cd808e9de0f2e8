package receivers

import (
	"testing"

	"doorbell/cmd/doorbell/config"
)

func TestEachRecipientGetsOneReportOfItsAgencies(t *testing.T) {
	list, err := Reports(read(t, "DOORBELL_EMAIL_SMTP=smtp://127.0.0.1:1", "DOORBELL_EMAIL_FROM=a@agency.example",
		"DOORBELL_EMAIL_REPORT_TO=A100=nora@agency.example;Max@agency.example,B200=max@agency.example,*=office@agency.example"))
	if err != nil || len(list) != 3 {
		t.Fatalf("%d recipients, %v", len(list), err)
	}
	names := map[string]bool{}
	for n, want := range []map[string]bool{
		{"A100": true, "B200": false, "C300": false},
		{"A100": true, "B200": true, "C300": false},
		{"A100": false, "B200": false, "C300": true},
	} {
		names[list[n].Name] = true
		for agency, includes := range want {
			if list[n].Includes(agency) != includes {
				t.Errorf("recipient %d, agency %s: %v", n, agency, !includes)
			}
		}
	}
	if len(names) != 3 {
		t.Errorf("names %v", names)
	}
	if none, err := Reports(&config.Config{}); len(none) > 0 || err != nil {
		t.Errorf("without a recipient: %v, %v", none, err)
	}
}
