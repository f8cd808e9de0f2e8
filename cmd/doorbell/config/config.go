// Package config reads doorbell's environment. It is the one place that knows the names, defaults,
// bounds and meanings of the variables. [Read] returns one typed value and everything that is wrong
// with it; the settings page, the environment example and `doorbell config` are generated from the
// tags of the same structs ([All]).
//
// A secret comes from the variable itself, from the file that NAME_FILE names, or from a credential
// of systemd. No error and no warning quotes a value, because a key may be in the wrong variable.
// Values are safe to share. Read may be called at any time by any goroutine, and again after files
// have changed.
package config

import (
	"crypto/x509"
	"net/url"
	"slices"
	"strings"
	"time"
	_ "time/tzdata" // TIMEZONE must work on a machine without zone files

	"doorbell/events/forward/message"
	"doorbell/events/forward/webhook"
)

// Base is what every command may read. The tags are the whole truth about a variable: its name is
// the field's in upper case, and the page of settings, the environment example and `doorbell
// config` are made from them. min, max and choice are checked for every field alike.
type Base struct {
	DataDir        string        `split_words:"true" default:"./data" desc:"Directory of doorbell.db, doorbell.sock and jetstream/; created with mode 0700 if missing."`
	NATSListen     string        `split_words:"true" is:"listen" default:"127.0.0.1:4222" desc:"Address of the embedded NATS server, or off for in-process only. Used when no NATS URL is set. An address other than loopback requires NATS_USER and NATS_PASSWORD, or NATS_TOKEN, from guests."`
	Instance       string        `split_words:"true" is:"name" desc:"Name of this installation, such as staging. Page, status, messages and User-Agent show it, and it is part of the names of its consumers: two doorbells with the same receivers on one stream need different names."`
	Standby        string        `split_words:"true" is:"name" desc:"Name of a pair of doorbells of which one is active while the other waits to take over. Both have the same name and settings, their own data directories, and share an external NATS."`
	SubjectPrefix  string        `split_words:"true" is:"subject" default:"listings" desc:"First part of every subject. The stream is named after it, in capitals: listings.v1.> is in LISTINGS."`
	StreamManage   string        `split_words:"true" default:"auto" choice:"auto,off" desc:"auto creates the stream if it is missing; an existing one on an external server is never changed."`
	Retention      time.Duration `split_words:"true" default:"720h" min:"2m" max:"87600h" desc:"How long the event log and the embedded stream keep events. The log always keeps what the stream has not accepted yet."`
	StoreMax       Size          `split_words:"true" default:"8GiB" min:"1MiB" max:"64TiB" desc:"Maximum size of the data in doorbell.db. An alarm is raised at 80 %; at 100 % the oldest published events are dropped early, and if that is not enough, polling waits."`
	StreamMax      Size          `split_words:"true" default:"4GiB" min:"1MiB" max:"64TiB" desc:"Maximum size of the embedded stream."`
	HTTPListen     string        `split_words:"true" is:"listen" default:"127.0.0.1:3667" desc:"Address of status page, feed, health, metrics and schemas, or off. On an address other than loopback, and behind a proxy, the page needs DOORBELL_HTTP_TOKEN, and the feed needs DOORBELL_HTTP_TOKEN or DOORBELL_FEED_TOKEN."`
	HTTPToken      Secret        `split_words:"true" is:"token" desc:"Token of at least 16 characters. If it is set, everything over HTTP except health, metrics and schemas needs it, on loopback too; the feed also accepts DOORBELL_FEED_TOKEN. It permits reading, polling, resuming and approving. Without a token, direct requests from this machine may only read."`
	FeedToken      Secret        `split_words:"true" is:"token" desc:"Token of at least 16 characters that opens only the feed of events."`
	ShowPeople     bool          `split_words:"true" default:"false" desc:"Show names on the status page. Without DOORBELL_HTTP_TOKEN every user of this machine can open the page."`
	PingURL        Secret        `split_words:"true" is:"address" desc:"Address that is called every minute while all is well (dead man's switch). https, unless the host is loopback or in DOORBELL_ALLOW_PLAINTEXT."`
	LogLevel       string        `split_words:"true" default:"info" choice:"debug,info,warn,error" desc:"Minimum log level."`
	LogFormat      string        `split_words:"true" default:"auto" choice:"auto,json,text" desc:"auto is JSON unless standard error is a terminal."`
	AllowPlaintext List          `split_words:"true" is:"host" desc:"Host names, separated by commas, that may be reached without TLS. Loopback is always allowed."`
}

// Stream is the name of the stream of events: that of the prefix in capitals. A stream's name has
// no dots.
func (b Base) Stream() string { return strings.ToUpper(strings.ReplaceAll(b.SubjectPrefix, ".", "_")) }

// ManagesStream reports whether a missing stream is made.
func (b Base) ManagesStream() bool { return b.StreamManage != "off" }

// HasHTTP says whether an address for HTTP is configured.
func (b Base) HasHTTP() bool { return b.HTTPListen != "" && b.HTTPListen != "off" }

// Agent returns what requests say of us behind "doorbell/": the version, and the instance if it has
// a name.
func (b Base) Agent(version string) string {
	if b.Instance == "" {
		return version
	}
	return version + " (" + b.Instance + ")"
}

// NATS is how to reach a server, under the names that the nats command knows. DOORBELL_NATS_URL
// wins over NATS_URL. Without a URL a server is embedded, and User, Password and Token are what it
// demands from guests.
type NATS struct {
	URL         string `split_words:"true" is:"servers" desc:"External server or servers, separated by commas; without it a server is embedded. DOORBELL_NATS_URL takes precedence."`
	Creds       string `split_words:"true" is:"file" desc:"Credentials file."`
	Nkey        string `split_words:"true" is:"file" desc:"File with an NKey seed."`
	User        string `split_words:"true" desc:"User name."`
	Password    Secret `split_words:"true" desc:"Password of the user."`
	Token       Secret `split_words:"true" desc:"Token instead of user and password."`
	CA          string `split_words:"true" is:"file" desc:"File with the certificate authority of the server."`
	Cert        string `split_words:"true" is:"file" desc:"File with the client certificate."`
	Key         string `split_words:"true" is:"file" desc:"File with the key of the client certificate."`
	JSDomain    string `split_words:"true" is:"domain" desc:"Domain of JetStream, if it is behind a leaf node."`
	JSApiPrefix string `split_words:"true" is:"api prefix" desc:"Prefix of the subjects of the JetStream API, if another account exports it, such as JS.leads.API."`
}

// Poll is what only the commands read that speak to the listings API.
type Poll struct {
	BaseURL           string        `split_words:"true" is:"address" desc:"Address of the API. https, unless the host is loopback or in DOORBELL_ALLOW_PLAINTEXT."`
	Agencies          List          `split_words:"true" is:"agency" desc:"Agencies to watch: A100,B200. May be left out when DOORBELL_API_KEYS names them."`
	APIKey            Secret        `split_words:"true" is:"key" desc:"Key of the API for all agencies."`
	APIKeys           PerAgency     `split_words:"true" is:"key" desc:"Keys by agency: A100=key, separated by commas, or one per line in a file. A file is read again within 30 s: keys may change, agencies may be added and removed."`
	CAFile            string        `split_words:"true" is:"file" desc:"File with certificate authorities of the API in PEM form, in addition to the system's."`
	Baseline          string        `split_words:"true" default:"silent" choice:"silent,emit" desc:"Whether what existed before the watch began is remembered silently or announced with origin baseline."`
	People            PerAgency     `split_words:"true" default:"full" choice:"full,contact,none" desc:"Which personal data events contain, for all or by agency, such as A100=none,*=full: full is everything; contact leaves out the message and the record that contains it; none leaves out the person, so that references, ids, times and score remain. A changed file is read within 30 s; existing events in the log and in streams stay as they are."`
	RequestsPerSecond float64       `split_words:"true" default:"5" min:"0.001" max:"1000" desc:"Limit on all requests to the API."`
	PollInterval      time.Duration `split_words:"true" default:"30s" min:"1ms" max:"24h" desc:"Minimum interval between two regular polls of one insertion. First polls, urgent ones and retries do not wait."`
	MaxStaleness      AutoDuration  `split_words:"true" default:"auto" min:"1ms" max:"720h" desc:"auto, or a duration: no insertion waits longer for its poll, as far as DOORBELL_REQUESTS_PER_SECOND allows. A value below DOORBELL_POLL_INTERVAL lowers that. auto is four rounds of polls at that rate."`
	WalkInterval      time.Duration `split_words:"true" default:"2m" min:"1ms" max:"168h" desc:"Target interval between two walks of an agency."`
	RequestTimeout    time.Duration `split_words:"true" default:"30s" min:"1ms" max:"10m" desc:"Timeout of one request."`
	RetryMax          time.Duration `split_words:"true" default:"5m" min:"1ms" max:"24h" desc:"Longest pause between two attempts."`
	HoldFor           time.Duration `split_words:"true" default:"30m" min:"1ms" max:"720h" desc:"How long a mass disappearance is held."`
	InsertionsFilter  string        `split_words:"true" is:"filter" desc:"The API's own filters: offerType=RENT&searchQuery=8005. What a change of the filter adds or removes is remembered and not announced."`
	IgnoreFields      List          `split_words:"true" is:"pointer" desc:"JSON pointers left out of digests: insertion:/views,contact_request:/read."`
	RecordsPath       List          `split_words:"true" is:"pointer" desc:"Where a response has its records, one JSON pointer for each kind: insertion:/data/items,contact_request:/leads. Found automatically if not set."`
	ContactIDFields   List          `split_words:"true" desc:"Names of the field that identifies a contact request, the best first. Found automatically if not set."`
	Timezone          string        `split_words:"true" is:"zone" default:"Europe/Zurich" desc:"Time zone of the API's times that name none, and of reports."`
}

// Forward is what only those read that bring events to where people are: run and forward, neither
// of which needs the API key for it. Every receiver that has an address is used.
type Forward struct {
	SlackURL       PerAgency `split_words:"true" is:"address" desc:"Address of a Slack incoming webhook: one for all, or by agency: A100=https://…,*=https://…, one per line in a file. Write a comma in an address as %2C."`
	SlackAlertsURL PerAgency `split_words:"true" is:"address" desc:"Another one for access.* and watch.* except watch.baselined; without it, they go to DOORBELL_SLACK_URL."`
	SlackPeople    string    `split_words:"true" default:"short" choice:"short,full" desc:"How much of a person Slack shows: short is the first name, an initial and the beginning of the message; full adds the whole name, e-mail, phone, company, address, more of the message, and buttons to write and call."`
	TeamsURL       PerAgency `split_words:"true" is:"address" desc:"Address of a workflow in Microsoft Teams that starts when a webhook request is received: one for all, or by agency as DOORBELL_SLACK_URL."`
	TeamsAlertsURL PerAgency `split_words:"true" is:"address" desc:"Another one for access.* and watch.* except watch.baselined; without it, they go to DOORBELL_TEAMS_URL."`
	TeamsPeople    string    `split_words:"true" default:"short" choice:"short,full" desc:"How much of a person Teams shows, as DOORBELL_SLACK_PEOPLE."`
	EmailSMTP      string    `split_words:"true" is:"smtp" desc:"SMTP server: smtp://user@host:587, which must offer STARTTLS, or smtps://user@host:465."`
	EmailPassword  Secret    `split_words:"true" desc:"Password of the user."`
	EmailFrom      string    `split_words:"true" is:"sender" desc:"Sender, such as leads@agency.example or Leads <leads@agency.example>."`
	EmailTo        PerAgency `split_words:"true" is:"recipients" desc:"Recipients, separated by semicolons: for all, or by agency: A100=nora@agency.example;max@agency.example,*=leads@agency.example, one agency per line in a file."`
	EmailAlertsTo  PerAgency `split_words:"true" is:"recipients" desc:"Other recipients for access.* and watch.* except watch.baselined; without them, they go to those of DOORBELL_EMAIL_TO for all."`
	EmailReportTo  PerAgency `split_words:"true" is:"recipients" desc:"Recipients of the weekly report, on Monday at 7 in DOORBELL_TIMEZONE, written as DOORBELL_EMAIL_TO: what happened to the leads, without personal data, with a table attached."`
	EmailOpenimmo  bool      `split_words:"true" default:"false" desc:"Attach contact requests as OpenImmo feedback, which many CRMs import."`
	Language       PerAgency `split_words:"true" default:"en" choice:"en,de,fr,it" desc:"Language of contact requests and insertions in Slack, Teams and mail, for all or by agency. Alerts are in English."`
	RoutesFile     string    `split_words:"true" desc:"File with the table of routes: CSV with the columns agency, reference, postal_code, offer_type, min_score, types and to. For each kind of receiver the first matching line wins; the addresses of these settings act as the last lines. Read again within 30 s."`
	AgencyNames    PerAgency `split_words:"true" desc:"Name of an agency, shown beside its id: A100=Muster Immobilien AG,B200=…, one per line in a file."`
	WebhookURL     PerAgency `split_words:"true" is:"address" desc:"Address that events are posted to, as Standard Webhooks and CloudEvents specify: one for all, or by agency as DOORBELL_SLACK_URL."`
	WebhookSecret  PerAgency `split_words:"true" is:"whsec" desc:"Secret that signs them, whsec_ and base64; to rotate it, write two with a space between. For all, or by agency."`

	WebhookTemplateFile PerAgency `split_words:"true" is:"file" desc:"File with a template: the JSON that the webhook gets instead of an event, its headers and types. For all, or by agency: A100=/etc/doorbell/crm.json,*=/etc/doorbell/hook.json. Read at the start."`
}

// FullPeople is the value of DOORBELL_SLACK_PEOPLE and DOORBELL_TEAMS_PEOPLE that shows the whole
// person.
const FullPeople = "full"

// Agency is one agency to watch, and its key.
type Agency struct {
	ID  string
	Key Secret
}

// Config is the environment, read and checked. It is a value: reading it again gives another one.
type Config struct {
	Base    Base
	NATS    NATS
	Poll    Poll    // zero unless the group was asked for
	Forward Forward // likewise

	Agencies []Agency       // of Poll, in the order of the configuration
	CAs      *x509.CertPool // of Poll: the system's and those of CAFile; nil without one
	Warnings []string       // sentences about what was odd but not wrong
	Settings []Setting      // every variable of the groups that were read

	Templates map[string]*webhook.Template // by the paths in DOORBELL_WEBHOOK_TEMPLATE_FILE
}

// group is a set of variables that a command reads.
type group string

const (
	GroupBase    group = "Base"
	GroupPoll    group = "Poll"
	GroupNATS    group = "NATS"
	GroupForward group = "Forward"
)

// Read reads Base, NATS and the further groups from the variables of a process. The error is a
// *Error that names everything that is wrong; the Config is returned with it, for `doorbell
// config`.
func Read(environ []string, further ...group) (*Config, error) {
	r := &reader{environ: map[string]string{}}
	for _, entry := range environ {
		name, value, _ := strings.Cut(entry, "=")
		r.environ[name] = value
	}
	c := &Config{}
	r.read(GroupBase, &c.Base)
	r.read(GroupNATS, &c.NATS)
	poll, forward := slices.Contains(further, GroupPoll), slices.Contains(further, GroupForward)
	if poll {
		r.read(GroupPoll, &c.Poll)
	}
	if forward {
		r.read(GroupForward, &c.Forward)
	}
	r.validate(c, poll, forward)
	for _, s := range r.settings {
		if s.Value = s.shown(); !r.good(s.Name) && s.Source != SourceDefault {
			s.Value = "(not usable)"
		}
		c.Settings = append(c.Settings, *s)
	}
	c.Warnings = r.warnings
	if len(r.problems) > 0 {
		return c, &Error{r.problems}
	}
	return c, nil
}

// Filter returns the configured filter of insertions as a query.
func (p Poll) Filter() url.Values {
	query, _ := url.ParseQuery(p.InsertionsFilter) // it was validated
	return query
}

// Zone returns the configured time zone.
func (p Poll) Zone() *time.Location { return message.Zone(p.Timezone) }

// WithKeyFile returns the same configuration with the key in a file for all its agencies.
func (c *Config) WithKeyFile(file string) (*Config, error) {
	const name = "--api-key-file"
	r := &reader{}
	key := strings.TrimRight(r.file(name, file), "\r\n")
	trouble := keyTrouble(key, nil)
	if r.wrongIf(trouble != "", name, trouble); len(r.problems) > 0 {
		return nil, &Error{r.problems}
	}
	other := *c
	other.Agencies = slices.Clone(c.Agencies)
	for n := range other.Agencies {
		other.Agencies[n].Key = NewSecret(key)
	}
	return &other, nil
}
