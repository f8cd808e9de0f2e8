package cli

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"
)

const (
	hook     = "https://hooks.example.com/services/" + doorbelltest.Sentinel
	mailSet  = "DOORBELL_EMAIL_SMTP=smtps://mail.example.com"
	mailFrom = "DOORBELL_EMAIL_FROM=Leads <leads@agency.example>"
	mailTo   = "DOORBELL_EMAIL_TO=nora@agency.example"
)

// badForwardInputs are like badInputs.
var badForwardInputs = []struct {
	name    string
	environ []string
	about   string // variable
	says    string // part of the sentence
}{
	{"Slack URL that is none", []string{"DOORBELL_SLACK_URL=" + doorbelltest.Sentinel}, "DOORBELL_SLACK_URL", "is not an https:// address; write it whole, like https://"},
	{"Slack URL without scheme", []string{"DOORBELL_SLACK_URL=hooks.slack.com/services/" + doorbelltest.Sentinel}, "DOORBELL_SLACK_URL", "write it whole, like https://"},
	{"Slack URL of another scheme", []string{"DOORBELL_SLACK_URL=ftp://hooks.slack.com/" + doorbelltest.Sentinel}, "DOORBELL_SLACK_URL", "write it whole, like https://"},
	{"Slack URL without host", []string{"DOORBELL_SLACK_URL=https:///" + doorbelltest.Sentinel}, "DOORBELL_SLACK_URL", "no usable host"},
	{"Slack URL that is a placeholder", []string{"DOORBELL_SLACK_URL=https://{host}/" + doorbelltest.Sentinel}, "DOORBELL_SLACK_URL", "is not an https:// address"},
	{"Slack URL with a space", []string{"DOORBELL_SLACK_URL=" + hook + " x"}, "DOORBELL_SLACK_URL", "is not an https:// address"},
	{"Slack URL in the clear", []string{"DOORBELL_SLACK_URL=http://hooks.example.com/" + doorbelltest.Sentinel}, "DOORBELL_SLACK_URL", "DOORBELL_ALLOW_PLAINTEXT"},
	{"Slack URL with a password", []string{"DOORBELL_SLACK_URL=https://u:" + doorbelltest.Sentinel + "@hooks.example.com/"}, "DOORBELL_SLACK_URL", "before the @"},
	{"two Slack URLs without agencies", []string{"DOORBELL_SLACK_URL=" + hook + "," + hook}, "DOORBELL_SLACK_URL", "two addresses; write A100=address,B200=address"},
	{"Slack URL of one agency that is none", []string{"DOORBELL_SLACK_URL=A100=" + hook + ",B200=" + doorbelltest.Sentinel}, "DOORBELL_SLACK_URL", "for B200 is not an https"},
	{"Slack URL of an agency that is there twice", []string{"DOORBELL_SLACK_URL=A100=" + hook + ",A100=" + hook}, "DOORBELL_SLACK_URL", "A100 is named twice"},
	{"Slack URL of an agency that is none", []string{"DOORBELL_SLACK_URL=A/100=" + hook}, "DOORBELL_SLACK_URL", "before the = is not an agency id"},
	{"Slack URL with agency and without", []string{"DOORBELL_SLACK_URL=A100=" + hook + "\n" + hook}, "DOORBELL_SLACK_URL", "entry 2 names no agency; write A100=address"},
	{"Slack URL that is missing for an agency", []string{"DOORBELL_SLACK_URL=A100="}, "DOORBELL_SLACK_URL", "agency A100 has no value"},
	{"Teams URL in the clear", []string{"DOORBELL_TEAMS_URL=http://hooks.example.com/" + doorbelltest.Sentinel}, "DOORBELL_TEAMS_URL", "DOORBELL_ALLOW_PLAINTEXT"},
	{"people in Teams that are none", []string{"DOORBELL_TEAMS_URL=" + hook, "DOORBELL_TEAMS_PEOPLE=all"}, "DOORBELL_TEAMS_PEOPLE", "short, full"},
	{"people that are none", []string{"DOORBELL_SLACK_URL=" + hook, "DOORBELL_SLACK_PEOPLE=all"}, "DOORBELL_SLACK_PEOPLE", "short, full"},
	{"table that does not exist", []string{"DOORBELL_ROUTES_FILE=/none/" + doorbelltest.Sentinel[:4]}, "DOORBELL_ROUTES_FILE", "does not exist"},
	{"mail server that is none", []string{"DOORBELL_EMAIL_SMTP=mail.example.com:587", mailFrom, mailTo}, "DOORBELL_EMAIL_SMTP", "write it like smtp://"},
	{"mail server of another scheme", []string{"DOORBELL_EMAIL_SMTP=https://mail.example.com", mailFrom, mailTo}, "DOORBELL_EMAIL_SMTP", "write it like smtp://"},
	{"mail server without host", []string{"DOORBELL_EMAIL_SMTP=smtp://:587", mailFrom, mailTo}, "DOORBELL_EMAIL_SMTP", "no usable host"},
	{"mail server with a password", []string{"DOORBELL_EMAIL_SMTP=smtp://u:" + doorbelltest.Sentinel + "@mail.example.com", mailFrom, mailTo}, "DOORBELL_EMAIL_SMTP", "DOORBELL_EMAIL_PASSWORD"},
	{"mail server with a path", []string{"DOORBELL_EMAIL_SMTP=smtp://mail.example.com/x", mailFrom, mailTo}, "DOORBELL_EMAIL_SMTP", "what follows the port"},
	{"mail user without password", []string{"DOORBELL_EMAIL_SMTP=smtp://u@mail.example.com", mailFrom, mailTo}, "DOORBELL_EMAIL_PASSWORD", "names a user"},
	{"mail password without user", []string{mailSet, mailFrom, mailTo, "DOORBELL_EMAIL_PASSWORD=" + doorbelltest.Sentinel}, "DOORBELL_EMAIL_PASSWORD", "without a user"},
	{"mail without server", []string{mailFrom, mailTo}, "DOORBELL_EMAIL_SMTP", "is not set, and mail needs it"},
	{"mail without sender", []string{mailSet, mailTo}, "DOORBELL_EMAIL_FROM", "is not set, and mail needs it"},
	{"mail without recipient", []string{mailSet, mailFrom}, "DOORBELL_EMAIL_TO", "is not set, and mail needs it"},
	{"mail password alone", []string{"DOORBELL_EMAIL_PASSWORD=" + doorbelltest.Sentinel}, "DOORBELL_EMAIL_SMTP", "is not set, and mail needs it"},
	{"recipient of alerts that is none", []string{mailSet, mailFrom, mailTo, "DOORBELL_EMAIL_ALERTS_TO=" + doorbelltest.Sentinel}, "DOORBELL_EMAIL_ALERTS_TO", "is not an email address"},
	{"recipient of reports that is none", []string{mailSet, mailFrom, "DOORBELL_EMAIL_REPORT_TO=A100=" + doorbelltest.Sentinel}, "DOORBELL_EMAIL_REPORT_TO", "for A100 entry 1 is not an email address"},
	{"reports without server", []string{mailFrom, "DOORBELL_EMAIL_REPORT_TO=owner@agency.example"}, "DOORBELL_EMAIL_SMTP", "is not set, and mail needs it"},
	{"reports alone", []string{"DOORBELL_EMAIL_REPORT_TO=owner@agency.example"}, "DOORBELL_EMAIL_SMTP", "is not set, and mail needs it"},
	{"language that is none", []string{"DOORBELL_LANGUAGE=A100=de,*=Deutsch"}, "DOORBELL_LANGUAGE", "is not one of its values; write one of en, de, fr, it"},
	{"language of an agency that is none", []string{"DOORBELL_LANGUAGE=A100=rm,*=de"}, "DOORBELL_LANGUAGE", "for A100 is not one of its values"},
	{"language that could be a secret", []string{"DOORBELL_LANGUAGE=" + doorbelltest.Sentinel}, "DOORBELL_LANGUAGE", "is not one of its values"},
	{"one name for all agencies", []string{"DOORBELL_AGENCY_NAMES=Muster Immobilien AG"}, "DOORBELL_AGENCY_NAMES", "write A100=Muster Immobilien AG"},
	{"sender that is none", []string{mailSet, "DOORBELL_EMAIL_FROM=" + doorbelltest.Sentinel, mailTo}, "DOORBELL_EMAIL_FROM", "is not an email address"},
	{"two senders", []string{mailSet, "DOORBELL_EMAIL_FROM=a@x.example,b@x.example", mailTo}, "DOORBELL_EMAIL_FROM", "is not an email address"},
	{"recipient that is none", []string{mailSet, mailFrom, "DOORBELL_EMAIL_TO=" + doorbelltest.Sentinel}, "DOORBELL_EMAIL_TO", "entry 1 is not an email address"},
	{"second recipient that is none", []string{mailSet, mailFrom, "DOORBELL_EMAIL_TO=A100=a@x.example; " + doorbelltest.Sentinel}, "DOORBELL_EMAIL_TO", "for A100 entry 2 is not an email address"},
	{"recipients with a comma between", []string{mailSet, mailFrom, "DOORBELL_EMAIL_TO=a@x.example,b@x.example"}, "DOORBELL_EMAIL_TO", "with ; between several"},
	{"recipients that are none", []string{mailSet, mailFrom, "DOORBELL_EMAIL_TO=A100=;"}, "DOORBELL_EMAIL_TO", "no recipient"},
	{"too many recipients", []string{mailSet, mailFrom, "DOORBELL_EMAIL_TO=" + strings.Repeat("a@x.example;", 51)}, "DOORBELL_EMAIL_TO", "more than 50"},
	{"webhook URL that is none", []string{"DOORBELL_WEBHOOK_URL=" + doorbelltest.Sentinel, "DOORBELL_WEBHOOK_SECRET=" + doorbelltest.Whsec}, "DOORBELL_WEBHOOK_URL", "write it whole"},
	{"webhook secret that is none", []string{"DOORBELL_WEBHOOK_URL=" + hook, "DOORBELL_WEBHOOK_SECRET=" + doorbelltest.Sentinel}, "DOORBELL_WEBHOOK_SECRET", "write whsec_ and"},
	{"three webhook secrets", []string{"DOORBELL_WEBHOOK_URL=" + hook, "DOORBELL_WEBHOOK_SECRET=" + doorbelltest.Whsec + " " + doorbelltest.Whsec + " " + doorbelltest.Whsec}, "DOORBELL_WEBHOOK_SECRET", "or two of them"},
	{"webhook secret alone", []string{"DOORBELL_WEBHOOK_SECRET=" + doorbelltest.Whsec}, "DOORBELL_WEBHOOK_SECRET", "without DOORBELL_WEBHOOK_URL"},
	{"two webhook secrets for one address", []string{"DOORBELL_WEBHOOK_URL=" + hook, "DOORBELL_WEBHOOK_SECRET=A100=" + doorbelltest.Whsec}, "DOORBELL_WEBHOOK_SECRET", "gives one address two secrets"},
	{"recipient that no server takes", []string{mailSet, mailFrom, "DOORBELL_EMAIL_TO=nora@agentur.zürich"}, "DOORBELL_EMAIL_TO", "cannot be used: mail recipient"},
	{"webhook secret file that is missing", []string{"DOORBELL_WEBHOOK_URL=" + hook, "DOORBELL_WEBHOOK_SECRET_FILE=/none/secret"}, "DOORBELL_WEBHOOK_SECRET_FILE", "does not exist; make the file"},
}

// byAgency says who has which value: "A100=x *=y".
func byAgency(p config.PerAgency) string {
	var all []string
	for agency, v := range p.All() {
		all = append(all, agency+"="+v.Reveal())
	}
	return strings.Join(all, " ")
}

func readForward(t *testing.T, environ ...string) *config.Config {
	t.Helper()
	c, err := config.Read(environ, config.GroupForward)
	if err != nil {
		t.Fatalf("refused: %v", err)
	}
	return c
}

// templateFile is a file with a template, readable by its owner.
func templateFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "template.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestATemplateThatCannotBeUsedEndsTheStart(t *testing.T) {
	secret := `"headers": {"Authorization": "Bearer ` + doorbelltest.Sentinel + `"}`
	for text, says := range map[string]string{
		"{" + secret + ",\n\"body\": x}":                                     "is refused: line 2: it is not JSON",
		"{" + secret + `, "body": {"properties": {"email": "{{.contact"}}}`:  "is refused: at body.properties.email: this is not a Go template",
		"{" + secret + `, "body": {}, "types": ["lead.created"]}`:            "is refused: at types: entry 1 is not an event type; did you mean contact_request.created?",
		"{" + secret + `, "body": {}, "` + doorbelltest.Sentinel + `": "x"}`: "is refused: it has a member that no template has; write only body",
	} {
		path := templateFile(t, text)
		for _, command := range []string{"run", "check"} {
			got := doorbelltest.Run(t, doorbelltest.Fit("DOORBELL_WEBHOOK_URL="+hook, "DOORBELL_WEBHOOK_TEMPLATE_FILE=A100="+path), command)
			if got.Code != exit.CodeConfig {
				t.Errorf("%s: exit code %d", command, got.Code)
			}
			doorbelltest.Has(t, got.Stdout+got.Stderr, "DOORBELL_WEBHOOK_TEMPLATE_FILE names "+path+", which "+says)
			got.HoldsNoSecret(t)
		}
	}
	good := templateFile(t, "{"+secret+`, "body": {"email": "{{.contact.email}}"}}`)
	for says, environ := range map[string][]string{
		"/none/x.json, which does not exist":         {"DOORBELL_WEBHOOK_TEMPLATE_FILE=/none/x.json"},
		"gives one address two templates; write one": {"DOORBELL_WEBHOOK_TEMPLATE_FILE=A100=" + good},
	} {
		_, err := config.Read(doorbelltest.Fit(append(environ, "DOORBELL_WEBHOOK_URL="+hook)...), config.GroupPoll, config.GroupForward)
		if err == nil || !strings.Contains(err.Error(), "DOORBELL_WEBHOOK_TEMPLATE_FILE ") || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", environ, err)
		}
	}
	for _, text := range []string{good, "A100=" + good + ",*=" + good, "A100=/no=such,*=" + good} {
		c, err := config.Read(doorbelltest.Fit("DOORBELL_WEBHOOK_URL="+hook, "DOORBELL_WEBHOOK_TEMPLATE_FILE="+text), config.GroupPoll, config.GroupForward)
		if strings.Contains(text, "no=such") {
			if err == nil || !strings.Contains(err.Error(), "names /no=such, which does not exist") {
				t.Errorf("%q: %v", text, err)
			}
			continue
		}
		if err != nil || len(c.Warnings) > 0 || c.Templates[good] == nil {
			t.Errorf("%q: %v %q", text, err, c.Warnings)
		}
	}
}

// TestTheRecipeForHubSpotWorksFromTheCommandLine sends a test with a recipe whose token is filled in.
func TestTheRecipeForHubSpotWorksFromTheCommandLine(t *testing.T) {
	recipe := readText(t, "../../../events/forward/webhook/recipes/hubspot.json")
	path := templateFile(t, strings.Replace(recipe, "THE_TOKEN_OF_YOUR_PRIVATE_APP", doorbelltest.Sentinel, 1))
	var bodies []string
	status := http.StatusConflict // for a contact that is known
	crm := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+doorbelltest.Sentinel {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		body, _ := io.ReadAll(r.Body)
		bodies = append(bodies, string(body))
		w.WriteHeader(status)
	}))
	defer crm.Close()
	environ := []string{
		"DOORBELL_DATA_DIR=" + doorbelltest.ShortDir(t), "DOORBELL_NATS_LISTEN=127.0.0.1:1",
		"DOORBELL_WEBHOOK_URL=" + crm.URL + "/crm/v3/objects/contacts", "DOORBELL_WEBHOOK_TEMPLATE_FILE=" + path,
	}
	got := doorbelltest.Run(t, environ, "forward", "webhook", "--test")
	if got.Code != exit.Done || len(bodies) != 1 || !strings.HasPrefix(bodies[0], `{"properties":{"email":"nora.beispiel@example.org"`) {
		t.Errorf("%+v %q", got, bodies)
	}
	got.HoldsNoSecret(t)
	status = http.StatusUnprocessableEntity
	got = doorbelltest.Run(t, environ, "forward", "webhook", "--test")
	if got.Code != exit.CodeFailed || !strings.Contains(got.Stdout, "status 422") {
		t.Errorf("%+v", got)
	}
	got.HoldsNoSecret(t)
}

func TestAddressesByAgencyMayHoldEqualsSignsAndCommas(t *testing.T) {
	for text, want := range map[string]string{
		"https://h.example/x":                                       "*=https://h.example/x",
		"https://h.example/x?token=a=b&c=d":                         "*=https://h.example/x?token=a=b&c=d",
		"https://h.example/x?ids=1,2,3":                             "*=https://h.example/x?ids=1,2,3",
		"A100=https://h.example/?a=b,B200=https://h.example/?c=d":   "A100=https://h.example/?a=b B200=https://h.example/?c=d",
		" A100 = https://h.example/?a=1,2 , * = https://h.example/": "A100=https://h.example/?a=1,2 *=https://h.example/",
	} {
		c := readForward(t, "DOORBELL_WEBHOOK_URL="+text)
		if got := byAgency(c.Forward.WebhookURL.PerAgency); got != want {
			t.Errorf("%s is %s, want %s", text, got, want)
		}
	}
	file := write(t, "urls", "# who gets what\r\nA100=https://h.example/x?a=1,2\r\n\r\n*=https://h.example/x?a=b\n", 0o600)
	c := readForward(t, "DOORBELL_SLACK_URL_FILE="+file)
	if got, want := byAgency(c.Forward.SlackURL.PerAgency), "A100=https://h.example/x?a=1,2 *=https://h.example/x?a=b"; got != want {
		t.Errorf("the file is %s, want %s", got, want)
	}
}

func TestSecretsAndRecipientsByAgency(t *testing.T) {
	padded := "whsec_dGhpcy1rZXktaGFzLW1vcmUtdGhhbi0yNC1ieXRlcw=="
	c := readForward(t, "DOORBELL_WEBHOOK_URL="+hook, "DOORBELL_WEBHOOK_SECRET="+padded+" "+doorbelltest.Whsec)
	if got, want := byAgency(c.Forward.WebhookSecret.PerAgency), "*="+padded+" "+doorbelltest.Whsec; got != want {
		t.Errorf("the secret is %s, want %s", got, want)
	}
	c = readForward(t, "DOORBELL_WEBHOOK_URL=A100="+hook+"?a,*="+hook, "DOORBELL_WEBHOOK_SECRET=A100="+padded+",*="+doorbelltest.Whsec)
	if got, want := byAgency(c.Forward.WebhookSecret.PerAgency), "A100="+padded+" *="+doorbelltest.Whsec; got != want {
		t.Errorf("the secrets are %s, want %s", got, want)
	}
	c = readForward(t, mailSet, mailFrom, "DOORBELL_EMAIL_TO=A100=a@x.example; b@x.example ,*=Nora <n@x.example>")
	if got, want := byAgency(c.Forward.EmailTo.PerAgency), "A100=a@x.example; b@x.example *=Nora <n@x.example>"; got != want {
		t.Errorf("the recipients are %s, want %s", got, want)
	}
	if got := config.Recipients("a@x.example; b@x.example;"); !slices.Equal(got, []string{"a@x.example", "b@x.example"}) {
		t.Errorf("the recipients are %q", got)
	}
}

func TestEveryWrongValueOfASettingIsReported(t *testing.T) {
	_, err := config.Read([]string{"DOORBELL_SLACK_URL=A100=" + doorbelltest.Sentinel + ",B200=ftp://x," + "C300=" + hook}, config.GroupForward)
	if err == nil || strings.Count(err.Error(), "DOORBELL_SLACK_URL for ") != 2 || !strings.Contains(err.Error(), "for B200 is not") {
		t.Errorf("got %v", err)
	}
}

func TestLanguagesAndNamesByAgency(t *testing.T) {
	f := readForward(t, "DOORBELL_LANGUAGE=A100=de,*=fr", "DOORBELL_AGENCY_NAMES=A100=Muster, Söhne & Co. AG,B200=Exemple SA").Forward
	if f.Language.Language("A100") != "de" || f.Language.Language("C300") != "fr" || readForward(t).Forward.Language.Language("A100") != "en" {
		t.Errorf("the languages are %s", f.Language.Masked())
	}
	if f.AgencyNames.Revealed("A100") != "Muster, Söhne & Co. AG" || f.AgencyNames.Revealed("B200") != "Exemple SA" || f.AgencyNames.Revealed("C300") != "" {
		t.Errorf("the names are %s", f.AgencyNames.Masked())
	}
}

func TestTheDefaultsOfForwardAreThoseOfTheContract(t *testing.T) {
	c := readForward(t)
	f := c.Forward
	if f.SlackPeople != "short" || f.EmailOpenimmo {
		t.Errorf("the defaults are %+v", f)
	}
	if f.RoutesFile != "" || !f.SlackURL.IsZero() {
		t.Errorf("what has no default is %+v", f)
	}
	if len(c.Warnings) > 0 {
		t.Errorf("warned: %q", c.Warnings)
	}
}

func TestOddSettingsOfForwardersAreWarnedAbout(t *testing.T) {
	for _, tt := range []struct {
		environ []string
		says    string
	}{
		{[]string{"DOORBELL_SLACK_URL=A100=" + hook + ",C300=" + hook}, "DOORBELL_SLACK_URL names C300, which is not watched"},
		{[]string{"DOORBELL_LANGUAGE=C300=de"}, "DOORBELL_LANGUAGE names C300, which is not watched"},
		{[]string{"DOORBELL_PEOPLE=C300=none"}, "DOORBELL_PEOPLE names C300, which is not watched"},
		{[]string{"DOORBELL_SLACK_URLS=" + hook}, "did you mean DOORBELL_SLACK_URL?"},
		{[]string{"DOORBELL_EMAIL_SMTP_FILE=/x"}, "did you mean DOORBELL_EMAIL_SMTP?"},
	} {
		c, err := config.Read(doorbelltest.Fit(tt.environ...), config.GroupPoll, config.GroupForward)
		if err != nil {
			t.Errorf("%q: %v", tt.environ, err)
			continue
		}
		if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], tt.says) || strings.Contains(c.Warnings[0], doorbelltest.Sentinel) {
			t.Errorf("%q: the warnings are %q, want one with %q", tt.environ, c.Warnings, tt.says)
		}
	}
}

func TestConfigShowsHostsAndRecipientsAndNoSecret(t *testing.T) {
	got := doorbelltest.Run(t, doorbelltest.Fit("DOORBELL_SLACK_URL=A100="+hook+",*=https://other.example/"+doorbelltest.Sentinel, mailSet, mailFrom, mailTo, "DOORBELL_EMAIL_OPENIMMO=true",
		"DOORBELL_WEBHOOK_URL="+hook, "DOORBELL_WEBHOOK_SECRET="+doorbelltest.Whsec), "config")
	if got.Code != exit.Done {
		t.Fatalf("exit code %d: %s", got.Code, got.Stderr)
	}
	doorbelltest.Has(t, got.Stdout, "A100=hooks.example.com(sha256:", "*=other.example(sha256:", "*=nora@agency.example", "Leads <leads@agency.example>")
	if strings.Contains(got.Stdout, "whsec_") {
		t.Error("the secret of the webhook is shown")
	}
	got.HoldsNoSecret(t)
}
