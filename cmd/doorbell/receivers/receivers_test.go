package receivers

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"doorbell/cmd/doorbell/config"
	"doorbell/events"
	"doorbell/events/forward"
)

// open is the receivers of an environment.
func open(t *testing.T, environ ...string) *Set {
	t.Helper()
	s, err := Open(read(t, environ...), "1.0.0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// refusal says why the receivers of an environment cannot be opened.
func refusal(t *testing.T, environ ...string) string {
	t.Helper()
	_, err := Open(read(t, environ...), "1.0.0")
	return fmt.Sprint(err)
}

func read(t *testing.T, environ ...string) *config.Config {
	t.Helper()
	c, err := config.Read(environ, config.GroupForward)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestAgenciesWithAddressesOfTheirOwnAreNeverServedByOneReceiver takes two addresses of which four
// bytes of the hash are the same.
func TestAgenciesWithAddressesOfTheirOwnAreNeverServedByOneReceiver(t *testing.T) {
	s := open(t, "DOORBELL_SLACK_URL=A100=https://hooks.slack.com/services/T47425,B200=https://hooks.slack.com/services/T55923")
	names := map[string]bool{}
	for _, r := range s.Distinct() {
		names[r.Receiver.Traits().Destination] = true
	}
	if len(names) != 2 {
		t.Errorf("two channels are %d destinations: %v", len(names), names)
	}
}

// brief is the lines of a table as "place agencies kinds to".
func brief(s *Set) (all []string) {
	for _, l := range s.Lines() {
		what := "leads"
		if l.Filter.Takes(events.TypeAccessHalted) {
			what = "alerts"
			if l.Filter.Takes(events.TypeContactRequestCreated) {
				what = "everything"
			}
		}
		one := l.Place() + ": " + what + " of " + l.Filter.Whose() + " to"
		for _, a := range l.To {
			one += " " + a.Value
		}
		all = append(all, strings.TrimPrefix(one, "DOORBELL_"))
	}
	return all
}

// A webhook gets its template by agency, from the settings with the types that the template names.
func TestATemplateBelongsToTheWebhookOfItsAgency(t *testing.T) {
	path := filepath.Join(t.TempDir(), "template.json")
	if err := os.WriteFile(path, []byte(`{"body": {"email": "{{.contact.email}}"}, "types": ["contact_request.created"]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	template := "DOORBELL_WEBHOOK_TEMPLATE_FILE=A100=" + path
	s := open(t, "DOORBELL_WEBHOOK_URL=A100=https://h.example/a,*=https://h.example/b", template)
	if got, want := brief(s), []string{"WEBHOOK_URL: leads of A100 to https://h.example/a", "WEBHOOK_URL: everything of all but A100 to https://h.example/b"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	s = open(t, routesFile(t, "agency;to\nA100;webhook:https://h.example/a\n*;webhook:https://h.example/b\n"), template)
	for n, want := range []string{path, ""} {
		if got := s.Lines()[n].To[0].template; got != want {
			t.Errorf("line %d has the template %q", n+1, got)
		}
	}
	for text, says := range map[string]string{
		"agency;to\nA100,B200;webhook:https://h.example/a\n":                           "line 2, column 2 (to): entry 1 is for agencies with different secrets or templates; write a line for each",
		"agency;to\nA100;webhook:https://h.example/a\n*;webhook:https://h.example/a\n": "line 3, column 1: a receiver cannot be used: one address has two secrets or two templates",
	} {
		if got := refusal(t, routesFile(t, text), template); !strings.Contains(got, says) {
			t.Errorf("%q: %s", text, got)
		}
	}
}

func TestOnlyAKnownKindOpensAReceiver(t *testing.T) {
	s := open(t, "DOORBELL_EMAIL_SMTP=smtp://mail.example:587", "DOORBELL_EMAIL_FROM=leads@x.example",
		"DOORBELL_EMAIL_TO=leads@x.example")
	for _, kind := range append(slices.Clone(Kinds), "ntfy") {
		value := "https://h.example/x"
		if kind == "email" {
			value = "nora@x.example"
		}
		if o, err := s.open(Address{Kind: kind, Value: value}); (err == nil) != slices.Contains(Kinds, kind) {
			t.Errorf("%s opens %T, %v", kind, o, err)
		}
	}
}

func TestOneAddressMayServeTwoKinds(t *testing.T) {
	open(t, routesFile(t, header+"*;;;;;;webhook:https://h.example/x slack:https://h.example/x\n"))
}

func TestSettingsAreLinesOfTheTable(t *testing.T) {
	mail := []string{"DOORBELL_EMAIL_SMTP=smtp://mail.example:587", "DOORBELL_EMAIL_FROM=leads@x.example"}
	for name, tt := range map[string]struct{ environ, want []string }{
		"alerts of Slack elsewhere": {
			[]string{"DOORBELL_SLACK_URL=A100=https://h.example/a,B200=https://h.example/a,*=https://h.example/b", "DOORBELL_SLACK_ALERTS_URL=https://h.example/ops"},
			[]string{
				"SLACK_URL: leads of A100, B200 to https://h.example/a", "SLACK_URL: leads of all but A100, B200 to https://h.example/b",
				"SLACK_ALERTS_URL: alerts of all agencies to https://h.example/ops",
			},
		},
		"alerts of Slack where the leads go": {
			[]string{"DOORBELL_SLACK_URL=https://h.example/a"},
			[]string{"SLACK_URL: leads of all agencies to https://h.example/a", "SLACK_ALERTS_URL: alerts of all agencies to https://h.example/a"},
		},
		"alerts of Teams elsewhere for one agency": {
			[]string{"DOORBELL_TEAMS_URL=https://h.example/a?sp=%2Frun&sv=1.0&sig=x", "DOORBELL_TEAMS_ALERTS_URL=A100=https://h.example/ops"},
			[]string{
				"TEAMS_URL: leads of all agencies to https://h.example/a?sp=%2Frun&sv=1.0&sig=x", "TEAMS_ALERTS_URL: alerts of A100 to https://h.example/ops",
				"TEAMS_ALERTS_URL: alerts of all but A100 to https://h.example/a?sp=%2Frun&sv=1.0&sig=x",
			},
		},
		"mailed alerts elsewhere": {
			[]string{"DOORBELL_EMAIL_TO=A100=nora@x.example,*=leads@x.example", "DOORBELL_EMAIL_ALERTS_TO=it@x.example"},
			[]string{
				"EMAIL_TO: leads of A100 to nora@x.example", "EMAIL_TO: leads of all but A100 to leads@x.example",
				"EMAIL_ALERTS_TO: alerts of all agencies to it@x.example",
			},
		},
		"mailed alerts to the recipient of all agencies": {
			[]string{"DOORBELL_EMAIL_TO=A100=nora@x.example,*=leads@x.example"},
			[]string{
				"EMAIL_TO: leads of A100 to nora@x.example", "EMAIL_TO: leads of all but A100 to leads@x.example",
				"EMAIL_ALERTS_TO: alerts of all agencies to leads@x.example",
			},
		},
		"mailed alerts to any recipient": {
			[]string{"DOORBELL_EMAIL_TO=A100=nora@x.example;max@x.example"},
			[]string{"EMAIL_TO: leads of A100 to nora@x.example max@x.example", "EMAIL_ALERTS_TO: alerts of A100 to nora@x.example max@x.example"},
		},
		"a webhook": {
			[]string{"DOORBELL_WEBHOOK_URL=https://h.example/a"},
			[]string{"WEBHOOK_URL: everything of all agencies to https://h.example/a"},
		},
	} {
		if strings.HasPrefix(name, "mailed") {
			tt.environ = append(tt.environ, mail...)
		}
		if got := brief(open(t, tt.environ...)); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
	s := open(t, append(mail, "DOORBELL_EMAIL_TO=nora@x.example;max@x.example", "DOORBELL_EMAIL_ALERTS_TO=max@x.example")...)
	if r := s.Routes(); len(r) != 3 || len(s.Distinct()) != 2 || r[1].Receiver != r[2].Receiver || r[0].Line != r[1].Line {
		t.Errorf("%d routes to %d receivers; want 3 to 2", len(r), len(s.Distinct()))
	}
	for _, r := range s.Routes() {
		if r.Filter.Fits(events.Event{Type: events.TypeWatchBaselined}) {
			t.Errorf("%q: the start of a watch is mailed", r.Filter.Types)
		}
	}
}

// routesFile is the setting of a table.
func routesFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "routes.csv")
	write(t, path, text)
	return "DOORBELL_ROUTES_FILE=" + path
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

const header = "agency;reference;postal_code;offer_type;min_score;types;to\n"

// TestATableAsASpreadsheetWritesIt has one table in several forms.
func TestATableAsASpreadsheetWritesIt(t *testing.T) {
	fifty := 50.0
	leads := []string{"contact_request.created"}
	want := []Line{
		{Number: 2, Filter: forward.Filter{Agencies: []string{"A100"}, Reference: "see*", Types: leads}, To: []Address{{Kind: "slack", Value: "https://h.example/a"}}},
		{Number: 3, Filter: forward.Filter{
			Agencies: []string{"A100", "B200"}, PostalCodes: []string{"8005", "8006"}, OfferTypes: []string{"RENT"}, MinScore: &fifty, Types: leads,
		}, To: []Address{{Kind: "slack", Value: "https://h.example/b"}, {Kind: "webhook", Value: "https://h.example/c"}}},
		{Number: 4, Filter: forward.Filter{Types: []string{"access.>", "watch.>"}}, To: []Address{{Kind: "slack", Value: "https://h.example/d"}}},
	}
	semicolons := header + "A100;see*;;;;;slack:https://h.example/a\n" +
		"A100,B200;;8005, 8006;RENT;50;;slack:https://h.example/b webhook:https://h.example/c slack:https://h.example/b\n" +
		"*;;;;;access.>,watch.>;Slack:https://h.example/d\n"
	for name, text := range map[string]string{
		"semicolons":           semicolons,
		"with a mark":          "\uFEFF" + semicolons,
		"with line ends":       strings.ReplaceAll(semicolons, "\n", "\r\n"),
		"empty lines below":    semicolons + ";;;;;;\n\n;;\n# a remark; of somebody\n",
		"without the last \\n": strings.TrimSuffix(semicolons, "\n"),
		"columns beside it":    strings.ReplaceAll(semicolons, "\n", ";;\n"),
		"upper case":           strings.Replace(semicolons, "agency;reference", "Agency; Reference", 1),
		"commas": "agency,reference,postal_code,offer_type,min_score,types,to\n" + "A100,see*,,,,,slack:https://h.example/a\n" +
			`"A100,B200",,"8005, 8006",RENT,50,,slack:https://h.example/b webhook:https://h.example/c` + "\n" + `*,,,,,"access.>,watch.>",slack:https://h.example/d` + "\n",
		"other order": "to,min_score,types,offer_type,postal_code,agency,reference\n" + "slack:https://h.example/a,,,,,A100,see*\n" +
			`slack:https://h.example/b webhook:https://h.example/c,50,,RENT,"8005, 8006","A100,B200"` + "\n" + `slack:https://h.example/d,,"access.>,watch.>"` + "\n",
	} {
		if got := open(t, routesFile(t, text)).Lines(); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := open(t, routesFile(t, "sep=;\n"+semicolons)).Lines(); len(got) != 3 || got[0].Number != 3 {
		t.Errorf("with the separator named: %+v", got)
	}
}

func TestATableWithAMistakeIsRefusedWithItsPosition(t *testing.T) {
	const secret = "https://h.example/s3cret"
	for says, text := range map[string]string{
		"line 1, column 1: there is no header; it is agency;":                                  "",
		"line 1, column 1: this is not a column; they are":                                     "A100;" + secret + "\n",
		"line 1, column 3: this column appears twice":                                          "agency;to;agency\n",
		"line 1, column 1: the column to is missing":                                           "agency\nA100\n",
		"line 3, column 1 (agency): this is not an agency id":                                  header + "\nA/100;;;;;;slack:" + secret,
		"line 2, column 5 (min_score): is not a number":                                        header + "A100;;;;high;;slack:" + secret,
		"line 2, column 5 (min_score): is not a number; write it like 50 or 0.7":               header + "A100;;;;NaN;;slack:" + secret,
		"line 2, column 6 (types): entry 2 is not an event type; schemas/README.md lists them": header + "A100;;;;;watch.>,acess.>;slack:" + secret,
		"line 2, column 7 (to): it is empty":                                                   header + "A100\n",
		"line 2, column 7 (to): entry 1 does not begin with a kind of receiver":                header + "A100;;;;;;" + secret,
		"line 2, column 7 (to): entry 2 is not an https:// address":                            header + "A100;;;;;;slack:" + secret + " webhook:s3cret",
		"line 2, column 7 (to): entry 1 uses plain http":                                       header + "A100;;;;;;slack:http://h.example/s3cret",
		"line 2, column 7 (to): entry 1 is not an https:// address":                            header + "A100;;;;;;teams:s3cret",
		"line 2, column 1: a receiver cannot be used: teams: the part of the address":          header + "A100;;;;;;teams:https://s3cret.example",
		"line 2, column 7 (to): entry 1 is not an email":                                       header + "A100;;;;;;email:s3cret",
		"line 2, column 7 (to): entry 1 needs DOORBELL_EMAIL_SMTP and DOORBELL_EMAIL_FROM":     header + "A100;;;;;;email:s3cret@x.example",
		"line 2, column 7 (to): entry 1 is for agencies with different secrets or templates":   header + "A100,B200;;;;;;webhook:" + secret,
		"line 2, column 8: this cell has no column":                                            header + "A100;;;;;;slack:" + secret + ";s3cret",
		"line 2, column 1: a character is not UTF-8":                                           header + "A100;Z\xfcrich;;;;;slack:" + secret,
		"line 2, column 2 (character): a quotation mark is in the wrong place":                 header + "A\"s3cret;;;;;;slack:" + secret,
		"line 3, column 1: a receiver cannot be used: one address has two secrets":             header + "A100;;;;;;webhook:" + secret + "\nB200;;;;;;webhook:" + secret,
	} {
		got := refusal(t, routesFile(t, text), "DOORBELL_WEBHOOK_SECRET=A100=whsec_dGhpcy1rZXktaGFzLTI0LWJ5dGVzLW9r")
		if !strings.Contains(got, says) || !strings.HasPrefix(got, "DOORBELL_ROUTES_FILE names ") || strings.Contains(got, "s3cret") {
			t.Errorf("%q: %s", says, got)
		}
	}
}

// TestTheFirstLineOfEachKindWins has rentals go to Slack and everything to mail, one listing to one
// agent, and the settings last.
func TestTheFirstLineOfEachKindWins(t *testing.T) {
	s := open(t, routesFile(t, header+
		"A100;see*;;;;;email:nora@x.example\n"+
		"A100;;8005;RENT;50;;slack:https://h.example/a\n"+
		"*;;;;;;email:leads@x.example email:office@x.example\n"),
		"DOORBELL_EMAIL_SMTP=smtp://mail.example:587", "DOORBELL_EMAIL_FROM=leads@x.example", "DOORBELL_SLACK_URL=A100=https://h.example/all")
	for name, tt := range map[string]struct {
		e    events.Event
		want string
	}{
		"one listing":   {events.Event{AgencyID: "A100", Reference: "see#1", Data: []byte("{}")}, "line 2: nora@x.example; DOORBELL_SLACK_URL: https://h.example/all; "},
		"a postal code": {events.Event{AgencyID: "A100", Data: []byte(`{"score":50,"insertion":{"postalCode":"8005","offerType":"RENT"}}`)}, "line 3: https://h.example/a; line 4: leads@x.example office@x.example; "},
		"a low score":   {events.Event{AgencyID: "A100", Data: []byte(`{"score":49,"insertion":{"postalCode":"8005","offerType":"RENT"}}`)}, "line 4: leads@x.example office@x.example; DOORBELL_SLACK_URL: https://h.example/all; "},
		"another":       {events.Event{AgencyID: "B200", Reference: "see#1", Data: []byte("{}")}, "line 4: leads@x.example office@x.example; "},
	} {
		tt.e.Type = events.TypeContactRequestCreated
		got := ""
		for _, l := range s.Matching(tt.e) {
			got += l.Place() + ":"
			for _, a := range l.To {
				got += " " + a.Value
			}
			got += "; "
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

func TestAnAddressThatMayBeASecretIsShownAsItsHost(t *testing.T) {
	for want, a := range map[string]Address{
		"email:nora@x.example":    {Kind: "email", Value: "nora@x.example"},
		"slack:h.example(sha256:": {Kind: "slack", Value: "https://h.example/s3cret"},
		"teams:h.example(sha256:": {Kind: "teams", Value: "https://h.example/?sig=s3cret"},
	} {
		if got := a.String(); !strings.HasPrefix(got, want) || strings.Contains(got, "s3cret") {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestATableIsReadAgain changes the file while it is watched. A file with a mistake is reported,
// and the routes before stay.
func TestATableIsReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		setting := routesFile(t, header+"A100;;;;;;slack:https://h.example/a\n")
		path := strings.TrimPrefix(setting, "DOORBELL_ROUTES_FILE=")
		s := open(t, setting)
		first := s.Routes()[0].Receiver
		var mu sync.Mutex
		var told []string
		ctx, stop := context.WithCancel(t.Context())
		go s.Watch(ctx, slog.New(slog.DiscardHandler), func(routes []forward.Route, problem string) {
			for _, r := range routes {
				problem += r.Filter.Whose() + " "
				if r.Filter.Whose() == "A100" && r.Receiver != first {
					t.Error("the receiver of a line that stays is another one")
				}
			}
			mu.Lock()
			defer mu.Unlock()
			told = append(told, problem)
		})
		step := func(want string, after func()) {
			t.Helper()
			after()
			time.Sleep(30 * time.Second)
			mu.Lock()
			defer mu.Unlock()
			if got := strings.Join(told, "; "); !strings.Contains(got, want) || (want == "") != (got == "") || len(told) > 1 {
				t.Errorf("told %q, want %q", got, want)
			}
			told = nil
		}
		step("", func() {})
		step("B200 A100 ", func() {
			write(t, path, header+"B200;;;;;;slack:https://h.example/b\nA100;;;;;;slack:https://h.example/a\n")
		})
		step("which is refused: line 2, column 5 (min_score)", func() { write(t, path, header+"A100;;;;x;;slack:https://h.example/a\n") })
		step("", func() {})
		if len(s.Routes()) != 2 {
			t.Errorf("%d routes are left", len(s.Routes()))
		}
		step("which does not exist", func() { _ = os.Remove(path) })
		step("A100 ", func() { write(t, path, header+"A100;;;;;;slack:https://h.example/a\n") })
		half := func() { // of a file that is just being written, and is read once meanwhile
			time.Sleep(config.RereadEvery / 2)
			write(t, path, header)
			time.Sleep(config.RereadEvery)
			write(t, path, header+"A100;;;;;;slack:https://h.example/a\n")
		}
		step("", half)
		stop()
		synctest.Wait()
	})
}
