package receivers

import (
	"reflect"
	"slices"
	"testing"

	"doorbell/cmd/doorbell/config"
	"doorbell/events/forward"
)

// read is the configuration of receivers alone.
func read(t *testing.T, environ ...string) *config.Config {
	t.Helper()
	c, err := config.Read(environ, config.GroupForward)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAgenciesAreSharedOutByTheirValue(t *testing.T) {
	type shares = []share[string]
	for _, tt := range []struct {
		name string
		p    string
		only []string
		want shares
	}{
		{"none", "", nil, nil},
		{"all", "https://a", nil, shares{{value: "https://a"}}},
		{"all, of some", "https://a", []string{"A100"}, shares{{value: "https://a", agencies: []string{"A100"}}}},
		{"each its own", "A100=https://a,B200=https://b", nil, shares{{value: "https://a", agencies: []string{"A100"}}, {value: "https://b", agencies: []string{"B200"}}}},
		{"two together", "A100=https://a,B200=https://b,C300=https://a", nil, shares{{value: "https://a", agencies: []string{"A100", "C300"}}, {value: "https://b", agencies: []string{"B200"}}}},
		{"the others", "A100=https://a,*=https://b", nil, shares{{value: "https://a", agencies: []string{"A100"}}, {value: "https://b", except: []string{"A100"}}}},
		{"the others, of some", "A100=https://a,*=https://b", []string{"A100", "C300"}, shares{{value: "https://a", agencies: []string{"A100"}}, {value: "https://b", agencies: []string{"C300"}}}},
		{"the others are nobody", "A100=https://a,*=https://b", []string{"A100"}, shares{{value: "https://a", agencies: []string{"A100"}}}},
		{"nobody", "A100=https://a", []string{"B200"}, nil},
		{"named as the others", "A100=https://b,B200=https://a,*=https://b", nil, shares{{value: "https://a", agencies: []string{"B200"}}, {value: "https://b", except: []string{"B200"}}}},
	} {
		var p config.PerAgencyURL
		if err := p.Decode(tt.p); err != nil {
			t.Fatal(err)
		}
		if got := sharesOf(p.Named, p.Revealed, tt.only); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

// TestAgenciesWithAddressesOfTheirOwnAreNeverServedByOneReceiver takes two addresses of which four bytes of the hash are the same.
func TestAgenciesWithAddressesOfTheirOwnAreNeverServedByOneReceiver(t *testing.T) {
	c := read(t, "DOORBELL_SLACK_URL=A100=https://hooks.slack.com/services/T47425,B200=https://hooks.slack.com/services/T55923")
	f, err := New(c, "slack", "slack", "1.0.0")
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, r := range f.Distinct() {
		names[r.Receiver.Traits().Destination] = true
	}
	if len(names) != 2 {
		t.Errorf("two channels are %d destinations: %v", len(names), names)
	}
}

func TestSlackAlertsMayGoElsewhere(t *testing.T) {
	c := read(t, "DOORBELL_SLACK_URL=A100=https://h.example/a,*=https://h.example/b", "DOORBELL_SLACK_ALERTS_URL=https://h.example/ops")
	f, err := New(c, "slack", "slack", "1.0.0")
	if err != nil || len(f.Routes) != 3 || len(f.Distinct()) != 3 {
		t.Fatalf("%d routes, %v; want 3", len(f.Routes), err)
	}
	for i, want := range []forward.Filter{{Only: forward.Leads, Agencies: []string{"A100"}}, {Only: forward.Leads, Except: []string{"A100"}}, {Only: forward.Alerts}} {
		want.Types = c.Forward.SlackTypes
		if got := f.Routes[i].Filter; !reflect.DeepEqual(got, want) {
			t.Errorf("route %d has %+v, want %+v", i, got, want)
		}
	}
	one := read(t, "DOORBELL_SLACK_URL=https://h.example/a")
	if f, err := New(one, "slack", "slack", "1.0.0"); err != nil || len(f.Routes) != 2 || len(f.Distinct()) != 1 {
		t.Errorf("%d routes, %v; want 2 to one receiver", len(f.Routes), err)
	}
}

func TestMailedAlertsMayGoElsewhereAndElseToTheOneForAll(t *testing.T) {
	base := []string{"DOORBELL_EMAIL_SMTP=smtp://mail.example:587", "DOORBELL_EMAIL_FROM=leads@x.example"}
	for _, tt := range []struct {
		name    string
		environ []string
		want    []forward.Filter
	}{
		{
			"others",
			[]string{"DOORBELL_EMAIL_TO=A100=nora@x.example,*=leads@x.example", "DOORBELL_EMAIL_ALERTS_TO=it@x.example"},
			[]forward.Filter{{Only: forward.Leads, Agencies: []string{"A100"}}, {Only: forward.Leads, Except: []string{"A100"}}, {Only: forward.Alerts}},
		},
		{
			"the one for all",
			[]string{"DOORBELL_EMAIL_TO=A100=nora@x.example,*=leads@x.example"},
			[]forward.Filter{{Only: forward.Leads, Agencies: []string{"A100"}}, {Only: forward.Leads, Except: []string{"A100"}}, {Only: forward.Alerts}},
		},
		{
			"rather them than nobody",
			[]string{"DOORBELL_EMAIL_TO=A100=nora@x.example"},
			[]forward.Filter{{Only: forward.Leads, Agencies: []string{"A100"}}, {Only: forward.Alerts, Agencies: []string{"A100"}}},
		},
	} {
		c := read(t, append(tt.environ, base...)...)
		f, err := New(c, "email", "email", "1.0.0")
		if err != nil || len(f.Routes) != len(tt.want) {
			t.Errorf("%s: %d routes, %v; want %d", tt.name, len(f.Routes), err, len(tt.want))
			continue
		}
		for i, want := range tt.want {
			got := f.Routes[i].Filter
			if slices.Contains(got.Types, "watch.baselined") || slices.Contains(got.Types, "watch.>") || !slices.Contains(got.Types, "watch.stale") {
				t.Errorf("%s: types %q", tt.name, got.Types)
			}
			want.Types = got.Types
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s: route %d has %+v, want %+v", tt.name, i, got, want)
			}
		}
	}
	named := read(t, append(base, "DOORBELL_EMAIL_TO=nora@x.example", "DOORBELL_EMAIL_TYPES=watch.baselined")...)
	if f, err := New(named, "email", "email", "1.0.0"); err != nil || len(f.Routes) != 1 || !slices.Contains(f.Routes[0].Filter.Types, "watch.baselined") {
		t.Errorf("what is named is not mailed: %+v, %v", f.Routes, err)
	}
}

func TestEachRecipientOfMailIsAReceiverOfItsOwn(t *testing.T) {
	c := read(t, "DOORBELL_EMAIL_SMTP=smtp://mail.example:587", "DOORBELL_EMAIL_FROM=leads@x.example", "DOORBELL_EMAIL_TO=nora@x.example;max@x.example",
		"DOORBELL_EMAIL_ALERTS_TO=max@x.example")
	f, err := New(c, "email", "email", "1.0.0")
	if err != nil || len(f.Routes) != 3 || len(f.Distinct()) != 2 || f.Routes[1].Receiver != f.Routes[2].Receiver {
		t.Errorf("%d routes to %d receivers, %v; want 3 to 2", len(f.Routes), len(f.Distinct()), err)
	}
}
