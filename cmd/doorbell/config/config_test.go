package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"doorbell/events"
)

// secret must be in no error, warning or printed value.
const secret = "00000000-5a4d-4b0b-8a11-d00fbe11-zq7"

const (
	whsec = "whsec_dGhpcy1rZXktaGFzLTI0LWJ5dGVzLW9r"
	hook  = "https://hooks.example.com/services/" + secret
)

// fit is an environment that is accepted, and what a test adds to it. Of a name that is there
// twice the second counts.
func fit(more ...string) []string {
	return append([]string{
		"DOORBELL_BASE_URL=https://api.example.com", "DOORBELL_AGENCIES=A100,B200", "DOORBELL_API_KEY=" + secret,
	}, more...)
}

func mustRead(t *testing.T, environ []string) *Config {
	t.Helper()
	c, err := Read(environ, GroupPoll, GroupForward)
	if err != nil {
		t.Fatalf("refused: %v", err)
	}
	return c
}

// refusal is what is wrong with an environment, one problem a line.
func refusal(environ ...string) string {
	if _, err := Read(fit(environ...), GroupPoll, GroupForward); err != nil {
		return err.Error()
	}
	return ""
}

func write(t *testing.T, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestDefaultsAreThoseOfTheContract(t *testing.T) {
	have := map[string]string{}
	for _, s := range mustRead(t, fit()).Settings {
		if s.Default != "" {
			have[strings.TrimPrefix(s.Name, "DOORBELL_")] = s.Default
		}
	}
	want := map[string]string{
		"DATA_DIR": "./data", "NATS_LISTEN": "127.0.0.1:4222", "SUBJECT_PREFIX": "listings", "STREAM_MANAGE": "auto",
		"RETENTION": "720h", "STORE_MAX": "8GiB", "STREAM_MAX": "4GiB", "HTTP_LISTEN": "127.0.0.1:3667", "SHOW_PEOPLE": "false",
		"LOG_LEVEL": "info", "LOG_FORMAT": "auto", "PEOPLE": "full", "BASELINE": "silent", "REQUESTS_PER_SECOND": "5",
		"POLL_INTERVAL": "30s", "MAX_STALENESS": "auto", "WALK_INTERVAL": "2m", "REQUEST_TIMEOUT": "30s", "RETRY_MAX": "5m",
		"HOLD_FOR": "30m", "TIMEZONE": "Europe/Zurich", "SLACK_PEOPLE": "short", "TEAMS_PEOPLE": "short",
		"EMAIL_OPENIMMO": "false", "LANGUAGE": "en",
	}
	if fmt.Sprint(have) != fmt.Sprint(want) {
		t.Errorf("the defaults are\n%v, want\n%v", have, want)
	}
}

func TestEverySettingIsRead(t *testing.T) {
	c := mustRead(t, []string{
		"DOORBELL_DATA_DIR=/var/lib/doorbell", "DOORBELL_NATS_LISTEN=off", "DOORBELL_INSTANCE=staging",
		"DOORBELL_STANDBY=leads", "DOORBELL_SUBJECT_PREFIX=a.b", "DOORBELL_STREAM_MANAGE=off", "DOORBELL_RETENTION=2d",
		"DOORBELL_STORE_MAX=1GB", "DOORBELL_STREAM_MAX=1048576", "DOORBELL_HTTP_LISTEN=:80",
		"DOORBELL_HTTP_TOKEN=t-0123456789abcdef", "DOORBELL_FEED_TOKEN=f-0123456789abcdef", "DOORBELL_SHOW_PEOPLE=true",
		"DOORBELL_PING_URL=https://ping.example/1?x=2", "DOORBELL_LOG_LEVEL=debug", "DOORBELL_LOG_FORMAT=json",
		"DOORBELL_ALLOW_PLAINTEXT=API.internal, other", "DOORBELL_BASE_URL=http://api.internal/v1/",
		"DOORBELL_AGENCIES= A100 , B200 ", "DOORBELL_API_KEYS=A100=a,B200=b", "DOORBELL_BASELINE=emit",
		"DOORBELL_PEOPLE=A100=none,*=contact", "DOORBELL_REQUESTS_PER_SECOND=0.5", "DOORBELL_POLL_INTERVAL=1m",
		"DOORBELL_MAX_STALENESS=1d12h", "DOORBELL_WALK_INTERVAL=5m", "DOORBELL_REQUEST_TIMEOUT=10s", "DOORBELL_RETRY_MAX=1m",
		"DOORBELL_HOLD_FOR=1h", "DOORBELL_INSERTIONS_FILTER=offerType=RENT&searchQuery=8005",
		"DOORBELL_IGNORE_FIELDS=insertion:/views,contact_request:/read,insertion:/a~1b",
		"DOORBELL_RECORDS_PATH=insertion:/data/items", "DOORBELL_CONTACT_ID_FIELDS=id,leadId", "DOORBELL_TIMEZONE=UTC",
		"DOORBELL_NATS_URL=nats://ours:4222", "NATS_URL=nats://theirs:4222", "NATS_USER=u", "NATS_PASSWORD=p",
		"DOORBELL_LANGUAGE=A100=de,*=fr", "DOORBELL_AGENCY_NAMES=A100=Muster, Söhne & Co. AG,B200=Exemple SA",
	})
	b, p, f := c.Base, c.Poll, c.Forward
	for what, ok := range map[string]bool{
		"base":   b.DataDir == "/var/lib/doorbell" && b.Standby == "leads" && b.Stream() == "A_B" && b.ShowPeople,
		"agent":  b.Agent("1.2.3") == "1.2.3 (staging)" && Base{}.Agent("1.2.3") == "1.2.3",
		"limits": b.Retention == 48*time.Hour && b.StoreMax == 1e9 && b.StreamMax == 1<<20,
		"tokens": b.HTTPToken.Reveal() == "t-0123456789abcdef" && b.FeedToken.Reveal() == "f-0123456789abcdef",
		"hosts":  slices.Equal(b.AllowPlaintext, List{"API.internal", "other"}),
		"API":    p.BaseURL == "http://api.internal/v1" && time.Duration(p.MaxStaleness) == 36*time.Hour && p.Zone() == time.UTC,
		"filter": p.Filter().Get("offerType") == "RENT" && p.Filter().Get("searchQuery") == "8005",
		"pointers": slices.Equal(p.IgnoreFields.Of("insertion"), []string{"/views", "/a~1b"}) &&
			slices.Equal(p.IgnoreFields.Of("contact_request"), []string{"/read"}) && p.RecordsPath.Of("contact_request") == nil,
		"NATS":      c.NATS.URL == "nats://ours:4222" && c.NATS.User == "u" && c.NATS.Password.Reveal() == "p",
		"people":    p.People.People("A100") == events.PeopleNone && p.People.People("B200") == events.PeopleContact,
		"languages": f.Language.Language("A100") == "de" && f.Language.Language("C300") == "fr",
		"names":     f.AgencyNames.Revealed("A100") == "Muster, Söhne & Co. AG" && f.AgencyNames.Revealed("C300") == "",
		"warnings":  len(c.Warnings) == 0,
	} {
		if !ok {
			t.Errorf("%s: %+v %q", what, c, c.Warnings)
		}
	}
	for _, s := range c.Settings {
		set := s.Group == GroupBase || s.Group == GroupPoll && s.Name != "DOORBELL_API_KEY" && s.Name != "DOORBELL_CA_FILE"
		if set && s.Source == SourceDefault {
			t.Errorf("%s was set and is reported as the default", s.Name)
		}
	}
}

func TestACommandReadsOnlyItsOwnGroups(t *testing.T) {
	c, err := Read([]string{"DOORBELL_API_KEY=" + secret, "DOORBELL_MAX_STALENESS=nonsense"})
	if err != nil || !c.Poll.APIKey.IsZero() || len(c.Agencies)+len(c.Warnings) > 0 {
		t.Errorf("a group of another command was read: %v, %q", err, c.Warnings)
	}
}

// wrongInputs are settings that are refused, each with one sentence: the variable at fault, and a
// part of what it says to do.
var wrongInputs = []struct{ environ, about, says string }{
	{"BASE_URL=", "BASE_URL", "is not set; write"},
	{"BASE_URL=api.example.com", "BASE_URL", "write it whole, like https://"},
	{"BASE_URL=https://{host}/", "BASE_URL", "write it whole, like https://"},
	{"BASE_URL=https:///v1", "BASE_URL", "write it whole, like https://"},
	{"BASE_URL=https://api.example.com:99999", "BASE_URL", "write it whole, like https://"},
	{"BASE_URL=https://u:" + secret + "@api.example.com", "BASE_URL", "leave out everything before the @"},
	{"BASE_URL=https://api.example.com/?key=" + secret, "BASE_URL", "leave out everything from the ?"},
	{"BASE_URL=http://api.example.com", "BASE_URL", "name the host in DOORBELL_ALLOW_PLAINTEXT"},
	{"CA_FILE=/none/ca.pem", "CA_FILE", "/none/ca.pem, which does not exist; create the file"},
	{"CA_FILE=config_test.go", "CA_FILE", "contains no certificate; write the authority's in PEM form"},
	{"AGENCIES=", "AGENCIES", "is not set; write the agencies to watch"},
	{"AGENCIES=A100,B 200", "AGENCIES", "entry 2 is not an agency id: it contains the character ' '"},
	{"AGENCIES=A\u200b100", "AGENCIES", `'\u200b'`},
	{"AGENCIES=" + strings.Repeat("A", 65), "AGENCIES", "1 to 64 characters"},
	{"AGENCIES=7f0c2b1e-6d1f-4a53-9a57-2f6f0d0f4c11", "AGENCIES", "looks like an API key"},
	{"AGENCIES=A100,B200,A100", "AGENCIES", "entry 3 is empty or repeated"},
	{"API_KEY=", "API_KEY", "write the key for all agencies, or one for each into DOORBELL_API_KEYS, like A100=key"},
	{"API_KEY= && API_KEYS=A100=" + secret, "API_KEYS", "has no key for B200; add A100=key for each"},
	{"API_KEY=" + secret + "\nx", "API_KEY", "that no header can carry; write the key alone"},
	{`API_KEY="` + secret + `"`, "API_KEY", "write the key alone, without name, scheme, agency, quotes"},
	{`API_KEY={"apiKey":"` + secret + `"}`, "API_KEY", "write the key alone"},
	{"API_KEY=A100=" + secret, "API_KEY", "write the key alone"},
	{"API_KEY= && API_KEYS=A100=Bearer " + secret, "API_KEYS", "for A100 contains more than a key"},
	{"API_KEY= && API_KEYS=A100=a\n" + secret, "API_KEYS", "entry 2 names no agency; write A100=value"},
	{"API_KEY= && API_KEYS=A100=", "API_KEYS", "entry 1 has no value; write A100=value"},
	{"API_KEY= && API_KEYS=" + secret + "==", "API_KEYS", "entry 1 has no value"},
	{"API_KEY= && API_KEY_FILE=https://api.example/" + secret, "API_KEY_FILE", "names a relative path, which does not exist; create the file"},
	{"API_KEYS=A100=a,A100=b", "API_KEYS", "A100 is named twice"},
	{"API_KEYS=*=" + secret, "API_KEYS", "keep one"},
	{"API_KEY= && API_KEY_FILE=/none/key", "API_KEY_FILE", "/none/key, which does not exist; create the file"},
	{"API_KEY= && API_KEY_FILE=/", "API_KEY_FILE", "not a regular file"},
	{"API_KEY_FILE=/none", "API_KEY", "both set; keep one"},
	{"POLL_INTERVAL=30", "POLL_INTERVAL", "write it like 30s"},
	{"RETENTION=1.5d", "RETENTION", "write it like 30s, 5m, 2h or 30d"},
	{"RETENTION=1m", "RETENTION", "must be between 2m and 87600h"},
	{"MAX_STALENESS=0s", "MAX_STALENESS", "neither auto nor a duration"},
	{"MAX_STALENESS=100ms", "MAX_STALENESS", "set DOORBELL_REQUESTS_PER_SECOND to at least 10, or allow at least 200ms"},
	{"REQUESTS_PER_SECOND=" + secret, "REQUESTS_PER_SECOND", "is not a number"},
	{"REQUESTS_PER_SECOND=NaN", "REQUESTS_PER_SECOND", "must be between 0.001 and 1000"},
	{"STORE_MAX=32 Mega", "STORE_MAX", "write it like 512KiB"},
	{"STORE_MAX=99999999999TiB", "STORE_MAX", "write it like 512KiB"},
	{"SHOW_PEOPLE=perhaps", "SHOW_PEOPLE", "must be true or false"},
	{"BASELINE=" + secret, "BASELINE", "must be one of silent, emit"},
	{"PEOPLE=A100=contacts,*=none", "PEOPLE", "for A100 must be one of full, contact, none"},
	{"TIMEZONE=Zurich", "TIMEZONE", "like Europe/Zurich"},
	{"INSERTIONS_FILTER=city=" + secret, "INSERTIONS_FILTER", "which has offerType, rankType and searchQuery"},
	{"IGNORE_FIELDS=insertion:/a,agency:/b", "IGNORE_FIELDS", "entry 2 is not a pointer; write insertion:/path"},
	{"RECORDS_PATH=insertion:/a,insertion:/b", "RECORDS_PATH", "several paths for one kind; write one"},
	{"ALLOW_PLAINTEXT=http://api", "ALLOW_PLAINTEXT", "entry 1 must be a host name alone"},
	{"HTTP_LISTEN=127.0.0.1", "HTTP_LISTEN", "write host:port"},
	{"HTTP_TOKEN=" + secret[:15], "HTTP_TOKEN", "must have 16 to 512 characters"},
	{"FEED_TOKEN=" + secret + " && HTTP_TOKEN=" + secret, "FEED_TOKEN", "create another one"},
	{"NATS_LISTEN=0.0.0.0:4222", "NATS_LISTEN", "set NATS_USER and NATS_PASSWORD"},
	{"INSTANCE=a.b", "INSTANCE", "write at most 32 letters, digits"},
	{"STANDBY=leads", "STANDBY", "needs an external NATS"},
	{"SUBJECT_PREFIX=listings.>", "SUBJECT_PREFIX", "letters, digits"},
	{"SUBJECT_PREFIX=" + strings.Repeat("leads.", 11) + "a", "SUBJECT_PREFIX", "at most 64 characters"},
	{"DATA_DIR=/a\x1b[2Jb", "DATA_DIR", "control character"},
	{"NATS_URL=http://u:" + secret + "@host", "NATS_URL", "write it like nats://host:4222"},
	{"NATS_URL=host && NATS_PASSWORD=" + secret, "NATS_PASSWORD", "without NATS_USER"},
	{"NATS_URL=host && NATS_JS_DOMAIN=a.b", "NATS_JS_DOMAIN", "is not the name of a domain"},
	{"NATS_URL=host && NATS_JS_API_PREFIX=JS.>", "NATS_JS_API_PREFIX", "is not the beginning of a subject"},
	{"NATS_URL=host && NATS_JS_DOMAIN=hub && NATS_JS_API_PREFIX=JS.leads.API.", "NATS_JS_DOMAIN", "exclude each other"},
	{"NATS_URL=host && NATS_CERT=config_test.go", "NATS_CERT", "belong together"},
	{"NATS_URL=host && NATS_CREDS=/none/creds", "NATS_CREDS", "/none/creds, which does not exist"},
	{"PING_URL=http://ping.example/" + secret, "PING_URL", "write https://"},
	{"SLACK_URL=hooks.slack.com/services/" + secret, "SLACK_URL", "write it whole, like https://"},
	{"SLACK_URL=A100=" + hook + ",B200=" + secret, "SLACK_URL", "for B200 is not an https"},
	{"EMAIL_SMTP=mail.example.com:587", "EMAIL_SMTP", "write it like smtp://"},
	{"EMAIL_SMTP=smtp://u:" + secret + "@mail.example.com", "EMAIL_SMTP", "write it into DOORBELL_EMAIL_PASSWORD"},
	{"EMAIL_SMTP=smtp://u@mail.example.com && EMAIL_FROM=a@x.example && EMAIL_TO=b@x.example", "EMAIL_PASSWORD", "belong together"},
	{"EMAIL_PASSWORD=" + secret, "EMAIL_SMTP", "is not set, and mail needs it"},
	{"EMAIL_SMTP=smtp://h && EMAIL_FROM=a@x.example", "EMAIL_TO", "is not set, and mail needs it"},
	{"EMAIL_FROM=" + secret, "EMAIL_FROM", "is not an email address"},
	{"EMAIL_TO=A100=a@x.example; " + secret, "EMAIL_TO", "for A100 entry 2 is not an email address"},
	{"EMAIL_TO=a@x.example,b@x.example", "EMAIL_TO", "with ; between several"},
	{"EMAIL_TO=" + strings.Repeat("a@x.example;", 51), "EMAIL_TO", "1 to 50 recipients"},
	{"LANGUAGE=A100=rm,*=de", "LANGUAGE", "for A100 must be one of en, de, fr, it"},
	{"WEBHOOK_URL=" + hook + " && WEBHOOK_SECRET=" + secret, "WEBHOOK_SECRET", "write whsec_ and"},
	{"CLUSTER=" + secret, "CLUSTER", "with disjoint DOORBELL_AGENCIES on one stream"},
	{"API_KEY_NEXT=" + secret, "API_KEY_NEXT", "an agency has one key; unset it"},
	{"STREAM=LEADS", "STREAM", "is named after DOORBELL_SUBJECT_PREFIX"},
	{"EMAIL_MIN_SCORE=50", "EMAIL_MIN_SCORE", "write a table of routes, which DOORBELL_ROUTES_FILE names"},
}

// variable is the full name of a variable in the table.
func variable(name string) string {
	if strings.HasPrefix(name, "NATS_") && !strings.HasPrefix(name, "NATS_LISTEN") {
		return name
	}
	return "DOORBELL_" + name
}

func TestEveryWrongInputGetsOneSentence(t *testing.T) {
	for _, tt := range wrongInputs {
		var environ []string
		for entry := range strings.SplitSeq(tt.environ, " && ") {
			environ = append(environ, variable(entry))
		}
		c, err := Read(fit(environ...), GroupPoll, GroupForward)
		var all *Error
		if !errors.As(err, &all) || len(all.Problems) != 1 {
			t.Errorf("%q: want 1 problem, got %v", tt.environ, err)
			continue
		}
		sentence := all.Error()
		if !strings.HasPrefix(sentence, variable(tt.about)+" ") || !strings.Contains(sentence, tt.says) {
			t.Errorf("%q: want a sentence about %s with %q, got %q", tt.environ, tt.about, tt.says, sentence)
		}
		shown, _ := json.Marshal(c.Settings)
		if strings.Contains(sentence+fmt.Sprint(c.Warnings)+string(shown), secret) {
			t.Errorf("%q: the secret is quoted in %v or %s", tt.environ, err, shown)
		}
	}
}

func TestAllProblemsAreReportedTogetherInTheOrderOfThePage(t *testing.T) {
	_, err := Read([]string{"DOORBELL_RETENTION=x", "DOORBELL_POLL_INTERVAL=x", "DOORBELL_TIMEZONE=x"}, GroupPoll)
	var names []string
	if all := (*Error)(nil); errors.As(err, &all) {
		for _, p := range all.Problems {
			names = append(names, strings.TrimPrefix(p.Name, "DOORBELL_"))
		}
	}
	if got := strings.Join(names, " "); got != "RETENTION POLL_INTERVAL TIMEZONE BASE_URL AGENCIES API_KEY" {
		t.Errorf("the problems are of %s", got)
	}
}

func TestPlainHTTPIsForLoopbackAndAllowedHosts(t *testing.T) {
	for _, base := range []string{"localhost:3668", "127.0.0.1:3668/prefix", "[::1]:80", "Api.Internal:8080"} {
		mustRead(t, fit("DOORBELL_ALLOW_PLAINTEXT=api.internal", "DOORBELL_BASE_URL=http://"+base))
	}
}

func TestGuestsWithCredentialsMayComeFromOtherMachines(t *testing.T) {
	mustRead(t, fit("DOORBELL_NATS_LISTEN=0.0.0.0:4222", "NATS_TOKEN=t"))
	mustRead(t, fit("DOORBELL_NATS_LISTEN=0.0.0.0:4222", "NATS_URL=nats://host")) // no server is embedded then
}

// byAgency is who has which value: "A100=x *=y".
func byAgency(p PerAgency) string {
	var all []string
	for agency, v := range p.All() {
		all = append(all, agency+"="+v.Reveal())
	}
	return strings.Join(all, " ")
}

func TestSettingsPerAgencyShareOneGrammar(t *testing.T) {
	for text, want := range map[string]string{
		"k":                                     "*=k",
		"Z9=z,A100=a":                           "Z9=z A100=a",
		"B200=b,*=k":                            "B200=b *=k",
		" A100 = a , B200 = b ,":                "A100=a B200=b",
		"A100=a==":                              "A100=a==",
		whsec + "= " + whsec + "=":              "*=" + whsec + "= " + whsec + "=",
		"# who\r\nA100=a\r\n\r\n  *=x,y \n#C=c": "A100=a *=x,y",
		"https://h.example/x?a=1,2":             "*=https://h.example/x?a=1,2",
		"A100=https://h.example/?a=b,*=/a=b":    "A100=https://h.example/?a=b *=/a=b",
		"A100=a@x; b@x ,*=Nora <n@x>":           "A100=a@x; b@x *=Nora <n@x>",
	} {
		var p PerAgency
		if err := p.Decode(text); err != nil || byAgency(p) != want {
			t.Errorf("%q is %s (%v), want %s", text, byAgency(p), err, want)
		}
	}
}

func TestEveryAgencyHasItsKey(t *testing.T) {
	for environ, want := range map[string]string{
		"AGENCIES=A100,B200 && API_KEY=k":                     "A100=k B200=k",
		"AGENCIES= && API_KEY= && API_KEYS=Z9=z,A100=a":       "Z9=z A100=a",
		"AGENCIES=A100,B200,C300 && API_KEYS=B200=b":          "A100=" + secret + " B200=b C300=" + secret,
		"AGENCIES=A100,B200 && API_KEY= && API_KEYS=B2=b,*=k": "A100=k B200=k",
		"AGENCIES=A100 && API_KEY=Bearer-key:token==":         "A100=Bearer-key:token==",
	} {
		var all []string
		for entry := range strings.SplitSeq(environ, " && ") {
			all = append(all, variable(entry))
		}
		var got []string
		for _, a := range mustRead(t, fit(all...)).Agencies {
			got = append(got, a.ID+"="+a.Key.Reveal())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %s", environ, got, want)
		}
	}
}

func FuzzAgenciesAreNeverInvalid(f *testing.F) {
	for _, seed := range []string{"k", "A100=k", "A100=k|n,B200=k", "*=k", "=", "a=|n", ",,", "\n#", "A100==", "\x00=\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var p PerAgency
		if err := p.Decode(text); err != nil {
			return
		}
		for _, agency := range p.Named {
			if CheckAgencyID(agency) != nil || p.Of(agency).IsZero() {
				t.Errorf("agency %q was accepted", agency)
			}
		}
	})
}

func TestASecretComesFromAFileWithoutItsLineEnd(t *testing.T) {
	for _, text := range []string{secret, secret + "\r\n", "\uFEFF" + secret + "\n\n"} {
		file := write(t, text)
		c := mustRead(t, fit("DOORBELL_API_KEY=", "DOORBELL_API_KEY_FILE="+file))
		at := slices.IndexFunc(c.Settings, func(s Setting) bool { return s.Name == "DOORBELL_API_KEY" })
		if c.Agencies[0].Key.Reveal() != secret || c.Settings[at].Source != "file "+file {
			t.Errorf("%q was read as another key, from %s", text, c.Settings[at].Source)
		}
	}
	t.Chdir(t.TempDir())
	if err := os.WriteFile("key", []byte(secret), 0o600); err != nil {
		t.Fatal(err)
	}
	c := mustRead(t, fit("DOORBELL_API_KEY=", "DOORBELL_API_KEY_FILE=key"))
	at := slices.IndexFunc(c.Settings, func(s Setting) bool { return s.Name == "DOORBELL_API_KEY" })
	if got := c.Settings[at].Source; got != "file key" {
		t.Errorf("a relative path: %s", got)
	}
	for text, says := range map[string]string{
		" \n": "is empty", strings.Repeat("x", 1<<20+1): "at most 1 MiB", secret + "\nsecond": "write the key alone",
		"export API_KEY='" + secret + "'\n": "write the key alone", "api-key: " + secret: "write the key alone",
	} {
		for _, name := range []string{"DOORBELL_API_KEY", "DOORBELL_API_KEYS"} {
			got := refusal("DOORBELL_API_KEY=", name+"_FILE="+write(t, text))
			if !strings.Contains(got, says) && !strings.Contains(got, "names no agency") || strings.Contains(got, secret) {
				t.Errorf("%s: %.20q: %s", name, text, got)
			}
		}
	}
}

func TestACredentialOfSystemdIsFoundWhereNoVariableIsSet(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"api_keys": "A100=a\nB200=b\n", "nats_token": "t\n", "unrelated": "x"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o440); err != nil {
			t.Fatal(err)
		}
	}
	c := mustRead(t, fit("DOORBELL_AGENCIES=", "DOORBELL_API_KEY=", "CREDENTIALS_DIRECTORY="+dir, "NATS_TOKEN="))
	if len(c.Agencies) != 2 || c.Agencies[1].Key.Reveal() != "b" || c.NATS.Token.Reveal() != "t" || len(c.Warnings) > 0 {
		t.Errorf("got %+v, %+v and %q", c.Agencies, c.NATS, c.Warnings)
	}
	if c := mustRead(t, fit("DOORBELL_API_KEYS=A100=x,B200=y", "CREDENTIALS_DIRECTORY="+dir)); c.Agencies[0].Key.Reveal() != "x" {
		t.Error("the credential wins over the variable")
	}
}

// TestATestedKeyTakesThePlaceOfEveryOther holds beside a credential of systemd, too.
func TestATestedKeyTakesThePlaceOfEveryOther(t *testing.T) {
	c, err := mustRead(t, fit("DOORBELL_API_KEYS=A100=a,B200=b")).WithKeyFile(write(t, "new\n"))
	if err != nil || c.Agencies[0].Key.Reveal() != "new" || c.Agencies[1].Key.Reveal() != "new" {
		t.Errorf("%v, %v", c, err)
	}
	for _, text := range []string{"", "API_KEY=" + secret} {
		if _, err := c.WithKeyFile(write(t, text)); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestOddNamesAndSettingsWithoutEffectAreWarnedAbout(t *testing.T) {
	const none = "is not a setting and is ignored"
	for environ, want := range map[string]string{
		"POLL_INTERVALL=x": none + "; did you mean DOORBELL_POLL_INTERVAL?", "APIKEY=x": none + "; did you mean DOORBELL_API_KEY?",
		"AGENCY=x":      none + "; did you mean DOORBELL_AGENCIES?",
		"API_KEY_FIL=x": none + "; did you mean DOORBELL_API_KEY_FILE?", "SLAK_URL=x": none + "; did you mean DOORBELL_SLACK_URL?",
		"BASE_URL_FILE=x": none + "; did you mean DOORBELL_BASE_URL?",
		"NATSURL=x":       none + "; did you mean DOORBELL_NATS_URL?", "FOO=" + secret: none, "HTTP_PORT=80": none + "; did you mean DOORBELL_HTTP_TOKEN?",
		"PAGE_SIZE=50": "no longer has an effect: walks ask for", "CONFIRM_DISAPPEARED=3": "when two complete walks miss it",
		"PEOPLE_RETENTION=24h": "shorten that, or set DOORBELL_PEOPLE", "MAX_BODY=1MiB": "32 MiB",
		"CLUSTER_GENERATION_FILE=/none": "no longer has an effect; remove it", "CLUSTER= ": "",
		"API_KEYS=C300=" + secret: "names C300, which is not watched", "SLACK_URL=C300=" + hook: "names C300, which is not watched",
		"PORT=tcp://10.0.0.1:3667": "", "PORT_3667_TCP_ADDR=10.0.0.1": "", "SERVICE_PORT_HTTP=80": "", // of Kubernetes
		"NATS_SERVICE_HOST=10.0.0.2": "", "NATS_PORT_4222_TCP=tcp://10.0.0.2:4222": "",
	} {
		all := mustRead(t, fit("DOORBELL_"+environ, "DOORBELLISH=1", "NATS_CONTEXT=x", "PATH=/bin")).Warnings
		got := strings.Join(all, "\n")
		name, _, _ := strings.Cut(environ, "=")
		wrong := want == none && strings.Contains(got, "mean") || strings.Contains(got, secret)
		if len(all) > 1 || (got == "") != (want == "") || wrong || got != "" && !strings.HasPrefix(got, "DOORBELL_"+name+" ") ||
			!strings.Contains(got, want) {
			t.Errorf("%s: warned %q, want %q", environ, all, want)
		}
	}
}

func TestAnUnusableTemplateIsRefusedWithItsPosition(t *testing.T) {
	header := `"headers": {"Authorization": "Bearer ` + secret + `"}`
	read := func(setting string) (*Config, error) {
		return Read(fit("DOORBELL_WEBHOOK_URL="+hook, "DOORBELL_WEBHOOK_TEMPLATE_FILE="+setting), GroupPoll, GroupForward)
	}
	for text, says := range map[string]string{
		"{" + header + ",\n\"body\": x}":                                    "is refused: line 2: it is not JSON",
		"{" + header + `, "body": {"properties": {"email": "{{.contact"}}}`: "at body.properties.email: this is not a Go template",
		"{" + header + `, "body": {}, "types": ["lead.created"]}`:           "at types: entry 1 is not an event type; schemas/README.md lists them",
	} {
		path := write(t, text)
		_, err := read(path)
		if err == nil || !strings.HasPrefix(err.Error(), "DOORBELL_WEBHOOK_TEMPLATE_FILE names "+path+", which ") ||
			!strings.Contains(err.Error(), says) || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", text, err)
		}
	}
	good := write(t, "{"+header+`, "body": {"email": "{{.contact.email}}"}}`)
	if c, err := read("A100=" + good + ",*=" + good); err != nil || c.Templates[good] == nil {
		t.Errorf("%v", err)
	}
	if _, err := read("A100=/no=such,*=" + good); err == nil || !strings.Contains(err.Error(), "names /no=such, which does not exist") {
		t.Errorf("%v", err)
	}
}

func TestWhatIsShownHasNoSecret(t *testing.T) {
	shown := map[string]string{}
	for _, s := range mustRead(t, fit("DOORBELL_API_KEYS=A100="+secret, "DOORBELL_SLACK_URL=A100="+hook+",*=https://other.example/x", "DOORBELL_EMAIL_FROM=a@x.example",
		"DOORBELL_EMAIL_SMTP=smtps://u%40x@mail.example.com", "DOORBELL_EMAIL_PASSWORD="+secret, "DOORBELL_EMAIL_TO=nora@agency.example",
		"DOORBELL_WEBHOOK_URL="+hook, "DOORBELL_WEBHOOK_SECRET="+whsec, "NATS_URL="+secret+"@host,nats://u:"+secret+"@other:4222")).Settings {
		shown[strings.TrimPrefix(s.Name, "DOORBELL_")] = s.Value
	}
	for name, want := range map[string]string{
		"API_KEY": NewSecret(secret).Fingerprint(), "API_KEYS": "A100=" + NewSecret(secret).Fingerprint(), "SLACK_URL": "A100=" + MaskedURL(hook) + ",*=other.example(sha256:",
		"EMAIL_SMTP": "smtps://***@mail.example.com", "EMAIL_TO": "*=nora@agency.example", "WEBHOOK_SECRET": "*=sha256:",
		"NATS_URL": "***@host,nats://***@other:4222", "EMAIL_FROM": "a@x.example", "RETENTION": "720h",
	} {
		if !strings.HasPrefix(shown[name], want) {
			t.Errorf("%s is shown as %q, want %q", name, shown[name], want)
		}
	}
	if all := fmt.Sprint(shown); strings.Contains(all, secret) || strings.Contains(all, whsec) {
		t.Errorf("a secret is in %s", all)
	}
}

func TestASecretNeverPrintsItself(t *testing.T) {
	s := NewSecret(secret)
	a := Agency{ID: "A100", Key: s}
	hidden := struct{ agency Agency }{a} // fmt reaches into unexported fields without asking methods
	var out bytes.Buffer
	for _, v := range []any{s, &s, a, &a, hidden, []Secret{s}, map[string]Secret{"k": s}, fmt.Errorf("x: %v", s)} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%p"} {
			fmt.Fprintf(&out, verb, v)
		}
	}
	slog.New(slog.NewTextHandler(&out, nil)).Info("x", "s", s, "agency", a, "hidden", hidden)
	slog.New(slog.NewJSONHandler(&out, nil)).Info("x", "s", s, "agency", a)
	if err := json.NewEncoder(&out).Encode([]any{s, a}); err != nil {
		t.Fatal(err)
	}
	for _, form := range []string{secret, fmt.Sprintf("%x", secret), fmt.Sprintf("%X", secret)} {
		if strings.Contains(out.String(), form) {
			t.Errorf("the secret is in the output: %s", out.String())
		}
	}
	if !strings.Contains(out.String(), Redacted) || s.Fingerprint() == NewSecret("x").Fingerprint() || (Secret{}).Fingerprint() != "" {
		t.Error("nothing is printed in its place, or it cannot be told apart")
	}
}

func TestAPatternThatMatchesNoTypeIsUnknown(t *testing.T) {
	for _, pattern := range []string{"contact_request.created", "access.>", "insertion.appeared"} {
		if !KnownType(pattern) {
			t.Errorf("%q is refused", pattern)
		}
	}
	for _, pattern := range []string{"", "contact_request", "contact_request.*", "*", "acces.>", "access>", "access.>.x", ".>", "a>", "CONTACT_REQUEST.CREATED"} {
		if KnownType(pattern) {
			t.Errorf("%q is accepted", pattern)
		}
	}
}

func TestTheTagsOfEveryFieldAreValid(t *testing.T) {
	for _, s := range All() {
		tag := s.field.Tag
		if s.Description == "" || !strings.HasSuffix(s.Description, ".") {
			t.Errorf("%s: description %q is not a sentence", s.Name, s.Description)
		}
		low, high := tag.Get("min"), tag.Get("max")
		if low != "" && (limit(s.field.Type, low) <= 0 || limit(s.field.Type, low) >= limit(s.field.Type, high)) {
			t.Errorf("%s: %q to %q is not a range", s.Name, low, high)
		}
		if is := tag.Get("is"); is != "" && troubles[is] == nil {
			t.Errorf("%s: nothing checks %q", s.Name, is)
		}
		if ofKubernetes.MatchString(s.Name + "=") {
			t.Errorf("%s: Kubernetes sets such names", s.Name)
		}
	}
}
