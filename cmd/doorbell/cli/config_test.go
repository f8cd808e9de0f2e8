package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/options"
	"doorbell/events"
)

func mustRead(t *testing.T, environ []string) *config.Config {
	t.Helper()
	c, err := config.Read(environ, config.GroupPoll)
	if err != nil {
		t.Fatalf("refused: %v", err)
	}
	return c
}

func TestRequestsToTheAPINameTheInstallation(t *testing.T) {
	for instance, want := range map[string]string{"": "1.2.3", "staging": "1.2.3 (staging)"} {
		c, err := config.Read(doorbelltest.Fit("DOORBELL_INSTANCE="+instance), config.GroupPoll)
		if err != nil {
			t.Fatal(err)
		}
		if got := options.Poller(c, "1.2.3").API.Version; got != want {
			t.Errorf("%q is named %s, want %s", instance, got, want)
		}
	}
}

func TestDefaultsAreThoseOfTheContract(t *testing.T) {
	c := mustRead(t, doorbelltest.Fit())
	b := config.Base{
		DataDir: "./data", NATSListen: "127.0.0.1:4222", SubjectPrefix: "listings", StreamManage: "auto",
		Retention: 720 * time.Hour, StoreMax: 8 << 30, StreamMax: 4 << 30, HTTPListen: "127.0.0.1:3667", LogLevel: "info", LogFormat: "auto",
	}
	if !reflect.DeepEqual(c.Base, b) {
		t.Errorf("Base is %+v, want %+v", c.Base, b)
	}
	zone, err := time.LoadLocation("Europe/Zurich")
	if err != nil {
		t.Fatal(err)
	}
	p := config.Poll{
		BaseURL: "https://api.example.com", Agencies: config.AgencyIDs{"A100", "B200"}, APIKey: c.Poll.APIKey, Baseline: "silent", People: c.Poll.People,
		RequestsPerSecond: 5, PollInterval: 30 * time.Second, WalkInterval: 2 * time.Minute, RequestTimeout: 30 * time.Second,
		RetryMax: 5 * time.Minute, HoldFor: 30 * time.Minute, Timezone: config.Zone{Location: zone},
	}
	if !reflect.DeepEqual(c.Poll, p) {
		t.Errorf("Poll is %+v, want %+v", c.Poll, p)
	}
	if c.Poll.People.People("A100") != events.PeopleFull {
		t.Errorf("of people of A100 is said: %s", c.Poll.People.Masked())
	}
	if c.Poll.APIKey.Reveal() != doorbelltest.Sentinel {
		t.Error("the key did not arrive")
	}
	if len(c.Warnings) > 0 {
		t.Errorf("warned: %q", c.Warnings)
	}
}

func TestEverySettingArrives(t *testing.T) {
	api := httptest.NewTLSServer(nil)
	defer api.Close()
	c := mustRead(t, []string{
		"DOORBELL_CA_FILE=" + authorityOf(t, api),
		"DOORBELL_DATA_DIR=/var/lib/doorbell", "DOORBELL_NATS_LISTEN=off", "DOORBELL_INSTANCE=staging", "DOORBELL_STANDBY=leads", "DOORBELL_SUBJECT_PREFIX=a.b", "DOORBELL_STREAM_MANAGE=off",
		"DOORBELL_RETENTION=2d", "DOORBELL_STORE_MAX=1GB", "DOORBELL_STREAM_MAX=1048576", "DOORBELL_HTTP_LISTEN=:80", "DOORBELL_HTTP_TOKEN=t-0123456789abcdef", "DOORBELL_FEED_TOKEN=f-0123456789abcdef",
		"DOORBELL_SHOW_PEOPLE=true", "DOORBELL_PING_URL=https://ping.example/1?x=2", "DOORBELL_LOG_LEVEL=debug", "DOORBELL_LOG_FORMAT=json", "DOORBELL_ALLOW_PLAINTEXT=API.internal, other",
		"DOORBELL_BASE_URL=http://api.internal/v1/", "DOORBELL_AGENCIES= A100 , B200 ", "DOORBELL_API_KEYS=A100=a,B200=b", "DOORBELL_BASELINE=emit", "DOORBELL_PEOPLE=A100=none,*=contact",
		"DOORBELL_REQUESTS_PER_SECOND=0.5", "DOORBELL_POLL_INTERVAL=1m", "DOORBELL_MAX_STALENESS=1d12h", "DOORBELL_WALK_INTERVAL=5m",
		"DOORBELL_REQUEST_TIMEOUT=10s", "DOORBELL_RETRY_MAX=1m", "DOORBELL_HOLD_FOR=1h",
		"DOORBELL_INSERTIONS_FILTER=offerType=RENT&searchQuery=8005", "DOORBELL_IGNORE_FIELDS=insertion:/views,contact_request:/read,insertion:/a~1b",
		"DOORBELL_RECORDS_PATH=insertion:/data/items", "DOORBELL_CONTACT_ID_FIELDS=id,leadId", "DOORBELL_TIMEZONE=UTC",
		"DOORBELL_NATS_URL=nats://ours:4222", "NATS_URL=nats://theirs:4222", "NATS_USER=u", "NATS_PASSWORD=p",
	})
	p := c.Poll
	for what, ok := range map[string]bool{
		"retention": c.Base.Retention == 48*time.Hour, "data dir": c.Base.DataDir == "/var/lib/doorbell", "standby": c.Base.Standby == "leads", "stream": c.Base.Stream() == "A_B", "store max": c.Base.StoreMax == 1e9, "stream max": c.Base.StreamMax == 1<<20,
		"token": c.Base.HTTPToken.Reveal() == "t-0123456789abcdef", "token of the feed": c.Base.FeedToken.Reveal() == "f-0123456789abcdef", "people": c.Base.ShowPeople, "hosts": slices.Equal(c.Base.AllowPlaintext, config.Hosts{"api.internal", "other"}),
		"base url": p.BaseURL == "http://api.internal/v1", "staleness": time.Duration(p.MaxStaleness) == 36*time.Hour,
		"filter":  p.Filter().Get("offerType") == "RENT" && p.Filter().Get("searchQuery") == "8005",
		"ignored": reflect.DeepEqual(p.IgnoreFields, config.Pointers{Insertion: []string{"/views", "/a~1b"}, ContactRequest: []string{"/read"}}),
		"records": reflect.DeepEqual(p.RecordsPath, config.Pointers{Insertion: []string{"/data/items"}}), "ids": slices.Equal(p.ContactIDFields, config.Names{"id", "leadId"}),
		"nats": c.NATS.URL == "nats://ours:4222" && c.NATS.User == "u" && c.NATS.Password.Reveal() == "p", "timezone": p.Timezone.String() == "UTC",
		"of people": p.People.People("A100") == events.PeopleNone && p.People.People("B200") == events.PeopleContact,
		"agencies":  len(c.Agencies) == 2 && c.Agencies[0].Key.Reveal() == "a" && c.Agencies[1].Key.Reveal() == "b",
	} {
		if !ok {
			t.Errorf("%s did not arrive: %+v %+v", what, c.Base, p)
		}
	}
	for _, s := range c.Settings {
		if s.Group != config.GroupNATS && s.Source == config.SourceDefault && s.Name != "DOORBELL_API_KEY" {
			t.Errorf("%s was set and is said to be the default", s.Name)
		}
	}
	if source := sourceOf(c, "NATS_URL"); source != "environment DOORBELL_NATS_URL" {
		t.Errorf("the source of NATS_URL is %q", source)
	}
}

// sourceOf is where `doorbell config` says that a value comes from.
func sourceOf(c *config.Config, name string) string {
	for _, s := range c.Settings {
		if s.Name == name {
			return s.Source
		}
	}
	return "no such setting"
}

func TestEmptyCountsAsNotSet(t *testing.T) {
	c := mustRead(t, doorbelltest.Fit("DOORBELL_POLL_INTERVAL=", "DOORBELL_MAX_STALENESS= ", "DOORBELL_API_KEY_FILE=", "NATS_URL=", "DOORBELL_NATS_URL="))
	if c.Poll.PollInterval != 30*time.Second || c.NATS.URL != "" {
		t.Errorf("got %v and %q", c.Poll.PollInterval, c.NATS.URL)
	}
}

func TestACommandReadsOnlyItsOwnGroup(t *testing.T) {
	c, err := config.Read([]string{"DOORBELL_API_KEY=" + doorbelltest.Sentinel, "DOORBELL_MAX_STALENESS=nonsense"})
	if err != nil {
		t.Fatalf("a command without Poll minds what is in it: %v", err)
	}
	if !c.Poll.APIKey.IsZero() || len(c.Agencies) > 0 {
		t.Error("the key was read")
	}
	if len(c.Warnings) > 0 {
		t.Errorf("names of another group are warned about: %q", c.Warnings)
	}
}

// badInputs are environments that must be refused: with the name that is at fault and a word of what to do.
var badInputs = []struct {
	name    string
	environ []string
	about   string // variable
	says    string // part of the sentence
}{
	{"base URL of an operation", []string{"DOORBELL_BASE_URL=https://api.example.com/v1/insertion-funnel/integration/A100/insertions"}, "DOORBELL_BASE_URL", "what stands before /insertion-funnel"},
	{"authority that is missing", []string{"DOORBELL_CA_FILE=/none/ca.pem"}, "DOORBELL_CA_FILE", "/none/ca.pem, which does not exist; make the file"},
	{"authority that is no certificate", []string{"DOORBELL_CA_FILE=config_test.go"}, "DOORBELL_CA_FILE", "holds no certificate; write the authority's in PEM form"},
	{"authority that is no regular file", []string{"DOORBELL_CA_FILE=/dev/null"}, "DOORBELL_CA_FILE", "not a regular file"},
	{"people that are none", []string{"DOORBELL_PEOPLE=nome"}, "DOORBELL_PEOPLE", "is not one of its values; write one of full, contact, none"},
	{"people of one agency that are none", []string{"DOORBELL_PEOPLE=A100=contacts,*=none"}, "DOORBELL_PEOPLE", "for A100 is not one of its values; write one of full, contact, none"},
	{"people that could be a secret", []string{"DOORBELL_PEOPLE=" + doorbelltest.Sentinel}, "DOORBELL_PEOPLE", "write one of full, contact, none"},
	{"no base URL", []string{"DOORBELL_BASE_URL="}, "DOORBELL_BASE_URL", "is not set; write"},
	{"base URL without scheme", []string{"DOORBELL_BASE_URL=api.example.com"}, "DOORBELL_BASE_URL", "write it whole, like https://"},
	{"base URL with host and port only", []string{"DOORBELL_BASE_URL=api.example.com:443"}, "DOORBELL_BASE_URL", "write it whole, like https://"},
	{"base URL of another scheme", []string{"DOORBELL_BASE_URL=ftp://api.example.com"}, "DOORBELL_BASE_URL", "write it whole, like https://"},
	{"base URL that is a placeholder", []string{"DOORBELL_BASE_URL={base_url}"}, "DOORBELL_BASE_URL", "write it whole, like https://"},
	{"base URL with a placeholder for a host", []string{"DOORBELL_BASE_URL=https://{host}/"}, "DOORBELL_BASE_URL", "write it whole, like https://"},
	{"base URL without host", []string{"DOORBELL_BASE_URL=https:///v1"}, "DOORBELL_BASE_URL", "no usable host"},
	{"base URL with a wrong port", []string{"DOORBELL_BASE_URL=https://api.example.com:99999"}, "DOORBELL_BASE_URL", "no usable host"},
	{"base URL with a password", []string{"DOORBELL_BASE_URL=https://u:" + doorbelltest.Sentinel + "@api.example.com"}, "DOORBELL_BASE_URL", "before the @"},
	{"base URL with a query", []string{"DOORBELL_BASE_URL=https://api.example.com/?key=" + doorbelltest.Sentinel}, "DOORBELL_BASE_URL", "from the ? or #"},
	{"base URL with a fragment", []string{"DOORBELL_BASE_URL=https://api.example.com/#x"}, "DOORBELL_BASE_URL", "from the ? or #"},
	{"plain http to a foreign host", []string{"DOORBELL_BASE_URL=http://api.example.com"}, "DOORBELL_BASE_URL", "DOORBELL_ALLOW_PLAINTEXT"},
	{"no agency", []string{"DOORBELL_AGENCIES="}, "DOORBELL_AGENCIES", "is not set; write"},
	{"agency with a space", []string{"DOORBELL_AGENCIES=A100,B 200"}, "DOORBELL_AGENCIES", "entry 2 is not an agency id: it holds a space"},
	{"agency with a slash", []string{"DOORBELL_AGENCIES=A/100"}, "DOORBELL_AGENCIES", "'/' (U+002F)"},
	{"agency with a hidden character", []string{"DOORBELL_AGENCIES=A\u200b100"}, "DOORBELL_AGENCIES", "U+200B"},
	{"agency that is too long", []string{"DOORBELL_AGENCIES=" + strings.Repeat("A", 65)}, "DOORBELL_AGENCIES", "longer than 64"},
	{"agency that is a key", []string{"DOORBELL_AGENCIES=7f0c2b1e-6d1f-4a53-9a57-2f6f0d0f4c11"}, "DOORBELL_AGENCIES", "looks like an API key"},
	{"agency that is there twice", []string{"DOORBELL_AGENCIES=A100,B200,A100"}, "DOORBELL_AGENCIES", "A100 twice"},
	{"comma without an agency", []string{"DOORBELL_AGENCIES=A100,,B200"}, "DOORBELL_AGENCIES", "entry 2 is empty"},
	{"no key", []string{"DOORBELL_API_KEY="}, "DOORBELL_API_KEY", "is not set; write the key for all agencies, or one for each into DOORBELL_API_KEYS, like A100=key"},
	{"key missing for one agency", []string{"DOORBELL_API_KEY=", "DOORBELL_API_KEYS=A100=" + doorbelltest.Sentinel}, "DOORBELL_API_KEYS", "no key for B200; add B200=key"},
	{"key that no header can carry", []string{"DOORBELL_API_KEY=" + doorbelltest.Sentinel + "\nx"}, "DOORBELL_API_KEY", "no header can carry: byte 34"},
	{"key with a letter that is not ASCII", []string{"DOORBELL_API_KEYS=A100=é" + doorbelltest.Sentinel}, "DOORBELL_API_KEYS", "for A100 that no header can carry: byte 1"},
	{"key in quotes", []string{"DOORBELL_API_KEY=\"" + doorbelltest.Sentinel + "\""}, "DOORBELL_API_KEY", "in quotes"},
	{"key with its name", []string{"DOORBELL_API_KEY=DOORBELL_API_KEY=" + doorbelltest.Sentinel}, "DOORBELL_API_KEY", "holds a name or a scheme before the key, such as DOORBELL_API_KEY= or ApiKey; write the key alone"},
	{"key with another name", []string{"DOORBELL_API_KEY=api_key = '" + doorbelltest.Sentinel + "'"}, "DOORBELL_API_KEY", "a name or a scheme before the key"},
	{"key as a shell exports it", []string{"DOORBELL_API_KEY=export DOORBELL_API_KEY=\"" + doorbelltest.Sentinel + "\""}, "DOORBELL_API_KEY", "a name or a scheme before the key"},
	{"key with its scheme", []string{"DOORBELL_API_KEY=ApiKey " + doorbelltest.Sentinel}, "DOORBELL_API_KEY", "a name or a scheme before the key"},
	{"key with its header", []string{"DOORBELL_API_KEY=Authorization: ApiKey " + doorbelltest.Sentinel}, "DOORBELL_API_KEY", "a name or a scheme before the key"},
	{"key of a header without its scheme", []string{"DOORBELL_API_KEY=x-api-key:" + doorbelltest.Sentinel}, "DOORBELL_API_KEY", "a name or a scheme before the key"},
	{"key in JSON", []string{"DOORBELL_API_KEY={\"apiKey\":\"" + doorbelltest.Sentinel + "\"}"}, "DOORBELL_API_KEY", "a name or a scheme before the key"},
	{"key as PowerShell sets it", []string{"DOORBELL_API_KEY=$env:DOORBELL_API_KEY=\"" + doorbelltest.Sentinel + "\""}, "DOORBELL_API_KEY", "a name or a scheme before the key"},
	{"key in braces", []string{"DOORBELL_API_KEY={" + doorbelltest.Sentinel + "}"}, "DOORBELL_API_KEY", "holds a key in braces; write the key alone"},
	{"key as YAML has it", []string{"DOORBELL_API_KEY=apiKey: " + doorbelltest.Sentinel}, "DOORBELL_API_KEY", "a name or a scheme before the key"},
	{"key of an agency with its scheme", []string{"DOORBELL_API_KEYS=A100=Bearer " + doorbelltest.Sentinel}, "DOORBELL_API_KEYS", "for A100 with a name or a scheme before it; write the key alone"},
	{"key of an agency with a name", []string{"DOORBELL_API_KEYS=A100=API_KEY=" + doorbelltest.Sentinel + ",B200=b"}, "DOORBELL_API_KEYS", "for A100 with a name or a scheme before it"},
	{"keys with their name", []string{"DOORBELL_API_KEY=", "DOORBELL_API_KEYS=DOORBELL_API_KEYS=A100=" + doorbelltest.Sentinel + ",B200=b"}, "DOORBELL_API_KEYS", "holds the name of a variable; write only what stands behind it, like A100=key"},
	{"keys as a shell exports them", []string{"DOORBELL_API_KEY=", "DOORBELL_API_KEYS=export DOORBELL_API_KEYS='A100=" + doorbelltest.Sentinel + "'"}, "DOORBELL_API_KEYS", "holds the name of a variable"},
	{"the name of one key for keys", []string{"DOORBELL_API_KEY=", "DOORBELL_AGENCIES=", "DOORBELL_API_KEYS=# the key\nAPI_KEY=" + doorbelltest.Sentinel}, "DOORBELL_API_KEYS", "holds the name of a variable"},
	{"a header for keys", []string{"DOORBELL_API_KEY=", "DOORBELL_API_KEYS=Authorization: ApiKey " + doorbelltest.Sentinel}, "DOORBELL_API_KEYS", "a name or a scheme before the key"},
	{"key without agency among several", []string{"DOORBELL_API_KEYS=A100=a," + doorbelltest.Sentinel}, "DOORBELL_API_KEYS", "entry 2 names no agency; write A100=key"},
	{"key where the agency should be", []string{"DOORBELL_API_KEYS=" + doorbelltest.Sentinel + "/=x"}, "DOORBELL_API_KEYS", "before the = is not an agency id"},
	{"agency and key with a colon between", []string{"DOORBELL_API_KEY=", "DOORBELL_API_KEYS=A100:" + doorbelltest.Sentinel}, "DOORBELL_API_KEYS", "without = between; write A100=key"},
	{"agency and key with a space between", []string{"DOORBELL_API_KEY=", "DOORBELL_API_KEYS=A100 " + doorbelltest.Sentinel}, "DOORBELL_API_KEYS", "without = between; write A100=key"},
	{"key for all and no agency", []string{"DOORBELL_AGENCIES=", "DOORBELL_API_KEY=", "DOORBELL_API_KEYS=" + doorbelltest.Sentinel}, "DOORBELL_API_KEYS", "names no agency; write A100=key"},
	{"the same without agencies", []string{"DOORBELL_AGENCIES=", "DOORBELL_API_KEY=", "DOORBELL_API_KEYS=c7 : " + doorbelltest.Sentinel}, "DOORBELL_API_KEYS", "without = between; write A100=key"},
	{"an odd agency and its key", []string{"DOORBELL_AGENCIES=zh-west", "DOORBELL_API_KEY=", "DOORBELL_API_KEYS=zh-west:" + doorbelltest.Sentinel}, "DOORBELL_API_KEYS", "without = between; write A100=key"},
	{"agency and key as the key for all", []string{"DOORBELL_API_KEY=A100=" + doorbelltest.Sentinel}, "DOORBELL_API_KEY", "write the key alone, or A100=key into DOORBELL_API_KEYS"},
	{"agency instead of its key", []string{"DOORBELL_API_KEY=", "DOORBELL_API_KEYS=A100"}, "DOORBELL_API_KEYS", "looks like an agency without its key; write A100=key"},
	{"another agency instead of a key", []string{"DOORBELL_API_KEY=", "DOORBELL_API_KEYS=C300"}, "DOORBELL_API_KEYS", "looks like an agency without its key; write A100=key"},
	{"agency instead of the key for all others", []string{"DOORBELL_API_KEY=", "DOORBELL_API_KEYS=A100=a,*=c7"}, "DOORBELL_API_KEYS", "looks like an agency without its key; write A100=key"},
	{"agency in another case instead of its key", []string{"DOORBELL_API_KEY=", "DOORBELL_API_KEYS=a100"}, "DOORBELL_API_KEYS", "looks like an agency without its key; write A100=key"},
	{"agency in another case and key with a colon between", []string{"DOORBELL_API_KEY=", "DOORBELL_API_KEYS=a100:" + doorbelltest.Sentinel}, "DOORBELL_API_KEYS", "without = between; write A100=key"},
	{"agency with two keys", []string{"DOORBELL_API_KEYS=A100=a,A100=b"}, "DOORBELL_API_KEYS", "A100 is named twice"},
	{"two keys for everybody", []string{"DOORBELL_API_KEYS=*=" + doorbelltest.Sentinel}, "DOORBELL_API_KEYS", "keep one"},
	{"duration without unit", []string{"DOORBELL_POLL_INTERVAL=30"}, "DOORBELL_POLL_INTERVAL", "write it like 30s"},
	{"days that are none", []string{"DOORBELL_RETENTION=1.5d"}, "DOORBELL_RETENTION", "write it like 30s, 5m, 2h or 30d"},
	{"days below zero", []string{"DOORBELL_RETENTION=-1d"}, "DOORBELL_RETENTION", "write it like 30s, 5m, 2h or 30d"},
	{"more days than a duration holds", []string{"DOORBELL_RETENTION=200000d"}, "DOORBELL_RETENTION", "write it like 30s, 5m, 2h or 30d"},
	{"duration that is a word", []string{"DOORBELL_WALK_INTERVAL=" + doorbelltest.Sentinel}, "DOORBELL_WALK_INTERVAL", "write it like 30s"},
	{"duration below zero", []string{"DOORBELL_REQUEST_TIMEOUT=-1s"}, "DOORBELL_REQUEST_TIMEOUT", "out of range"},
	{"duration of zero", []string{"DOORBELL_RETRY_MAX=0s"}, "DOORBELL_RETRY_MAX", "out of range"},
	{"retention below the duplicate window", []string{"DOORBELL_RETENTION=1m"}, "DOORBELL_RETENTION", "from 2m"},
	{"staleness that is none", []string{"DOORBELL_MAX_STALENESS=soon"}, "DOORBELL_MAX_STALENESS", "neither auto nor a duration"},
	{"staleness of zero", []string{"DOORBELL_MAX_STALENESS=0s"}, "DOORBELL_MAX_STALENESS", "neither auto nor a duration"},
	{"staleness that one insertion exceeds", []string{"DOORBELL_MAX_STALENESS=100ms"}, "DOORBELL_MAX_STALENESS", "set DOORBELL_REQUESTS_PER_SECOND to at least 10, or allow at least 200ms"},
	{"staleness that a slow pace exceeds", []string{"DOORBELL_MAX_STALENESS=1h", "DOORBELL_REQUESTS_PER_SECOND=0.0001"}, "DOORBELL_REQUESTS_PER_SECOND", "from 0.001"},
	{"number that is a word", []string{"DOORBELL_REQUESTS_PER_SECOND=" + doorbelltest.Sentinel}, "DOORBELL_REQUESTS_PER_SECOND", "is not a number"},
	{"no requests", []string{"DOORBELL_REQUESTS_PER_SECOND=0"}, "DOORBELL_REQUESTS_PER_SECOND", "from 0.001 to 1000"},
	{"too many requests", []string{"DOORBELL_REQUESTS_PER_SECOND=1001"}, "DOORBELL_REQUESTS_PER_SECOND", "from 0.001 to 1000"},
	{"number that is not a number", []string{"DOORBELL_REQUESTS_PER_SECOND=NaN"}, "DOORBELL_REQUESTS_PER_SECOND", "out of range"},
	{"size that is none", []string{"DOORBELL_STORE_MAX=32 Mega"}, "DOORBELL_STORE_MAX", "write it like 512KiB"},
	{"size that overflows", []string{"DOORBELL_STORE_MAX=99999999999TiB"}, "DOORBELL_STORE_MAX", "write it like 512KiB"},
	{"size that is too small", []string{"DOORBELL_STREAM_MAX=1"}, "DOORBELL_STREAM_MAX", "from 1MiB"},
	{"switch that is none", []string{"DOORBELL_SHOW_PEOPLE=perhaps"}, "DOORBELL_SHOW_PEOPLE", "neither true nor false"},
	{"baseline that is none", []string{"DOORBELL_BASELINE=loud"}, "DOORBELL_BASELINE", "silent, emit"},
	{"level that is none", []string{"DOORBELL_LOG_LEVEL=verbose"}, "DOORBELL_LOG_LEVEL", "debug, info"},
	{"time zone that is none", []string{"DOORBELL_TIMEZONE=Zurich"}, "DOORBELL_TIMEZONE", "like Europe/Zurich"},
	{"filter that the API lacks", []string{"DOORBELL_INSERTIONS_FILTER=city=" + doorbelltest.Sentinel}, "DOORBELL_INSERTIONS_FILTER", "offerType, rankType, searchQuery"},
	{"filter that is no query", []string{"DOORBELL_INSERTIONS_FILTER=offerType=%zz"}, "DOORBELL_INSERTIONS_FILTER", "not a URL query"},
	{"filter that is there twice", []string{"DOORBELL_INSERTIONS_FILTER=offerType=RENT&offerType=BUY"}, "DOORBELL_INSERTIONS_FILTER", "write one"},
	{"pointer without kind", []string{"DOORBELL_IGNORE_FIELDS=/views"}, "DOORBELL_IGNORE_FIELDS", "insertion:/path"},
	{"pointer of another kind", []string{"DOORBELL_IGNORE_FIELDS=insertion:/a,agency:/b"}, "DOORBELL_IGNORE_FIELDS", "entry 2"},
	{"pointer with a lone tilde", []string{"DOORBELL_IGNORE_FIELDS=insertion:/a~2"}, "DOORBELL_IGNORE_FIELDS", "entry 1"},
	{"two paths for one kind", []string{"DOORBELL_RECORDS_PATH=insertion:/a,insertion:/b"}, "DOORBELL_RECORDS_PATH", "write one"},
	{"id field twice", []string{"DOORBELL_CONTACT_ID_FIELDS=id,id"}, "DOORBELL_CONTACT_ID_FIELDS", "write each name once"},
	{"host with a scheme", []string{"DOORBELL_ALLOW_PLAINTEXT=http://api"}, "DOORBELL_ALLOW_PLAINTEXT", "the name alone"},
	{"address without port", []string{"DOORBELL_HTTP_LISTEN=127.0.0.1"}, "DOORBELL_HTTP_LISTEN", "host:port like 127.0.0.1:3667"},
	{"address with a port that is none", []string{"DOORBELL_NATS_LISTEN=127.0.0.1:nats"}, "DOORBELL_NATS_LISTEN", "host:port"},
	{"token that can be guessed", []string{"DOORBELL_HTTP_TOKEN=" + doorbelltest.Sentinel[:15]}, "DOORBELL_HTTP_TOKEN", "fewer than 16 characters"},
	{"token that no header can hold", []string{"DOORBELL_HTTP_TOKEN=" + doorbelltest.Sentinel + " and more"}, "DOORBELL_HTTP_TOKEN", "cannot stand in a header"},
	{"token of the feed that can be guessed", []string{"DOORBELL_FEED_TOKEN=" + doorbelltest.Sentinel[:15]}, "DOORBELL_FEED_TOKEN", "fewer than 16 characters"},
	{"one token for two", []string{"DOORBELL_FEED_TOKEN=" + doorbelltest.Sentinel, "DOORBELL_HTTP_TOKEN=" + doorbelltest.Sentinel}, "DOORBELL_FEED_TOKEN", "make another one"},
	{"open server without credentials", []string{"DOORBELL_NATS_LISTEN=0.0.0.0:4222"}, "DOORBELL_NATS_LISTEN", "set NATS_USER and NATS_PASSWORD"},
	{"open server on all addresses", []string{"DOORBELL_NATS_LISTEN=:4222", "NATS_USER=u"}, "DOORBELL_NATS_LISTEN", "set NATS_USER and NATS_PASSWORD"},
	{"an instance with a dot", []string{"DOORBELL_INSTANCE=a.b"}, "DOORBELL_INSTANCE", "letters, digits"},
	{"prefix with a wildcard", []string{"DOORBELL_SUBJECT_PREFIX=listings.>"}, "DOORBELL_SUBJECT_PREFIX", "letters, digits"},
	{"a stream that is not named after the prefix", []string{"DOORBELL_STREAM=LEADS"}, "DOORBELL_STREAM", "DOORBELL_SUBJECT_PREFIX"},
	{"server of another kind", []string{"NATS_URL=http://u:" + doorbelltest.Sentinel + "@host"}, "NATS_URL", "nats://host:4222"},
	{"server under our name", []string{"DOORBELL_NATS_URL=http://host"}, "DOORBELL_NATS_URL", "nats://host:4222"},
	{"password without user", []string{"NATS_URL=host", "NATS_PASSWORD=" + doorbelltest.Sentinel}, "NATS_PASSWORD", "without NATS_USER"},
	{"domain of several tokens", []string{"NATS_URL=host", "NATS_JS_DOMAIN=a.b"}, "NATS_JS_DOMAIN", "is not the name of a domain"},
	{"domain with a wildcard", []string{"NATS_URL=host", "NATS_JS_DOMAIN=*"}, "NATS_JS_DOMAIN", "is not the name of a domain"},
	{"prefix with a wildcard", []string{"NATS_URL=host", "NATS_JS_API_PREFIX=JS.>"}, "NATS_JS_API_PREFIX", "is not the beginning of a subject"},
	{"prefix with an empty token", []string{"NATS_URL=host", "NATS_JS_API_PREFIX=JS..API"}, "NATS_JS_API_PREFIX", "is not the beginning of a subject"},
	{"domain and prefix", []string{"NATS_URL=host", "NATS_JS_DOMAIN=hub", "NATS_JS_API_PREFIX=JS.leads.API."}, "NATS_JS_DOMAIN", "exclude each other"},
	{"certificate without key", []string{"NATS_URL=host", "NATS_CERT=/none"}, "NATS_CERT", "belong together"},
	{"credentials that are missing", []string{"NATS_URL=host", "NATS_CREDS=/none/creds"}, "NATS_CREDS", "/none/creds, which does not exist"},
	{"ping in the clear", []string{"DOORBELL_PING_URL=http://ping.example/" + doorbelltest.Sentinel}, "DOORBELL_PING_URL", "write https://"},
	{"key file that is missing", []string{"DOORBELL_API_KEY=", "DOORBELL_API_KEY_FILE=/none/key"}, "DOORBELL_API_KEY_FILE", "/none/key, which does not exist; make the file"},
	{"key file that is a directory", []string{"DOORBELL_API_KEY=", "DOORBELL_API_KEY_FILE=/"}, "DOORBELL_API_KEY_FILE", "not a regular file"},
	{"key and key file", []string{"DOORBELL_API_KEY_FILE=/none"}, "DOORBELL_API_KEY", "both set; keep one"},
	{"a cluster", []string{"DOORBELL_CLUSTER=" + doorbelltest.Sentinel, "NATS_URL=nats://localhost"}, "DOORBELL_CLUSTER", "with disjoint DOORBELL_AGENCIES on one stream"},
	{"control character", []string{"DOORBELL_DATA_DIR=/a\x1b[2Jb"}, "DOORBELL_DATA_DIR", "control character"},
	{"bytes that are no text", []string{"DOORBELL_SUBJECT_PREFIX=\xff"}, "DOORBELL_SUBJECT_PREFIX", "not UTF-8"},
}

func TestBadInputGetsASentenceWithAdvice(t *testing.T) {
	t.Parallel()
	for _, tt := range slices.Concat(badInputs, badForwardInputs) {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			ctx, cancel := context.WithTimeout(t.Context(), doorbelltest.Patience) // should it be taken and run
			defer cancel()
			for _, command := range []interface {
				Run(context.Context, *program) error
			}{&ConfigCmd{}, &ConfigCmd{JSON: true}, &RunCmd{}} { // not by a command line, which takes longer than they do
				var stdout, stderr strings.Builder
				p := &program{stdout: &stdout, stderr: &stderr, environ: doorbelltest.Fit(append([]string{"DOORBELL_DATA_DIR=" + dir}, tt.environ...)...)}
				got := doorbelltest.Result{Code: report(&stderr, command.Run(ctx, p)), Stdout: stdout.String(), Stderr: stderr.String()}
				if _, runs := command.(*RunCmd); got.Code != exit.CodeConfig || runs && got.Stdout != "" {
					t.Fatalf("%T: exit code %d, want %d:\n%s%s", command, got.Code, exit.CodeConfig, got.Stdout, got.Stderr)
				}
				var sentences []string
				for line := range strings.Lines(got.Stderr) {
					if strings.HasPrefix(line, "doorbell: "+tt.about+" ") {
						sentences = append(sentences, line)
					}
				}
				if len(sentences) != 1 || !strings.Contains(sentences[0], tt.says) {
					t.Errorf("want one sentence about %s with %q:\n%s", tt.about, tt.says, got.Stderr)
				}
				if problems := strings.Count(got.Stderr, "\ndoorbell: ") + 1; problems != 1 {
					t.Errorf("one thing is wrong, %d are reported:\n%s", problems, got.Stderr)
				}
				got.HoldsNoSecret(t)
			}
			if left, _ := os.ReadDir(dir); len(left) > 0 {
				t.Error("something was written")
			}
		})
	}
}

func TestSeveralProblemsAreReportedTogether(t *testing.T) {
	got := doorbelltest.Run(t, []string{"DOORBELL_POLL_INTERVAL=x", "DOORBELL_WALK_INTERVAL=x", "DOORBELL_RETENTION=x", "DOORBELL_TIMEZONE=x"}, "config")
	for _, name := range []string{"BASE_URL", "AGENCIES", "POLL_INTERVAL", "WALK_INTERVAL", "RETENTION", "TIMEZONE"} {
		if strings.Count(got.Stderr, "doorbell: DOORBELL_"+name+" ") != 1 {
			t.Errorf("no sentence about %s:\n%s", name, got.Stderr)
		}
	}
}

func TestAnEmptyKeyFileAndNoAgencyAreOneProblem(t *testing.T) {
	_, err := config.Read(doorbelltest.Fit("DOORBELL_AGENCIES=", "DOORBELL_API_KEY=", "DOORBELL_API_KEY_FILE="+write(t, "key", "", 0o600)), config.GroupPoll)
	if err == nil || strings.Contains(err.Error(), "for A100") {
		t.Errorf("got %v", err)
	}
}

func TestTheErrorHasATypeAndNames(t *testing.T) {
	_, err := config.Read(nil, config.GroupPoll)
	var cfg *config.Error
	if !errors.As(err, &cfg) || len(cfg.Problems) != 3 || cfg.Problems[0].Name != "DOORBELL_BASE_URL" || cfg.Problems[2].Name != "DOORBELL_API_KEY" {
		t.Errorf("got %#v", err)
	}
}

func TestPlainHTTPIsForLoopbackAndAllowedHosts(t *testing.T) {
	for _, base := range []string{"http://localhost:3668", "http://127.0.0.1:3668/prefix", "http://[::1]:80", "http://Api.Internal:8080"} {
		mustRead(t, doorbelltest.Fit("DOORBELL_ALLOW_PLAINTEXT=api.internal", "DOORBELL_BASE_URL="+base))
	}
}

func TestGuestsWithCredentialsMayComeFromOtherMachines(t *testing.T) {
	mustRead(t, doorbelltest.Fit("DOORBELL_NATS_LISTEN=0.0.0.0:4222", "NATS_TOKEN=t"))
	mustRead(t, doorbelltest.Fit("DOORBELL_NATS_LISTEN=0.0.0.0:4222", "NATS_USER=u", "NATS_PASSWORD=p"))
	mustRead(t, doorbelltest.Fit("DOORBELL_NATS_LISTEN=0.0.0.0:4222", "NATS_URL=nats://host")) // not used then
}

func TestTwoReadingsAtTheSameTimeDoNotMeet(t *testing.T) {
	before := os.Environ()
	done := make(chan error)
	for i := range 8 {
		go func() {
			rate := float64(i + 1)
			c, err := config.Read(doorbelltest.Fit(fmt.Sprintf("DOORBELL_REQUESTS_PER_SECOND=%g", rate), "DOORBELL_RETENTION=x"), config.GroupPoll)
			if err == nil || c.Poll.RequestsPerSecond != rate {
				err = fmt.Errorf("%g requests a second, want %g; error %w", c.Poll.RequestsPerSecond, rate, err)
			} else {
				err = nil
			}
			done <- err
		}()
	}
	for range 8 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	after := os.Environ()
	slices.Sort(before)
	slices.Sort(after)
	if !slices.Equal(before, after) {
		t.Error("a reading left something in the environment of the process")
	}
}

// write makes a file in a directory of the test.
func write(t *testing.T, name, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}
