package metrics

import "github.com/prometheus/client_golang/prometheus"

// kind is what a metric is.
type kind = prometheus.ValueType

const (
	gauge   = prometheus.GaugeValue
	counter = prometheus.CounterValue
)

// family is a metric with all of its labels.
type family struct {
	name   string
	kind   kind
	help   string
	labels []string
}

// families are all there are but for poller.Metrics, in the order of the documentation.
var families []*family

func add(name string, k kind, help string, labels ...string) *family {
	f := &family{"doorbell_" + name, k, help, labels}
	families = append(families, f)
	return f
}

var (
	buildInfo = add("build_info", gauge,
		"Always 1; the labels say which doorbell runs and which Go built it.", "version",
		"goversion")
	ready = add("ready", gauge, "1 if what is found can be stored and published, as for /readyz. A halted agency does not matter.")
)

// The API.
var (
	apiUp = add("api_up", gauge,
		"0 while there is no connection to the base URL of the API: DNS, TCP or TLS fails.")

	budgetLimit = add("budget_limit_requests_per_second", gauge,
		"The limit on everything that is sent to the API: DOORBELL_REQUESTS_PER_SECOND.")
	budgetSpent = add("budget_spent_requests_total", counter,
		"Requests that were granted. Its rate divided by the limit is the use of the budget.")
)

// The watch of an agency.
var (
	agencyState = add("agency_state", gauge,
		"Always 1; the label is the state of the agency: starting, baselining, watching, held, backing_off, stale, halted or waiting_for_stream.", "agency", "state")
	halts = add("halts", gauge,
		"Scopes of the agency whose polling stopped because the API responded 401 or 403: agency, contact_requests or insertion.",
		"agency", "scope")
	alarms = add("alarms", gauge,
		"Alarms in force: stale (no successful response), schema_drifted (responses have another form), gap_detected (not everything can be seen), "+
			"change_held (too many insertions are missing at once; doorbell approve accepts it).",
		"agency", "kind")
	insertions = add("insertions", gauge,
		"Insertions of the agency that the last walks have listed.", "agency")
	lastWalk = add("last_complete_walk_timestamp_seconds", gauge,
		"When the last complete walk of the list of insertions began, in seconds since 1970. Missing before the first one.", "agency")
	oldestPoll = add("oldest_poll_age_seconds", gauge,
		"Age of the last poll of the insertion that has waited longest for its next one.", "agency")
)

// The event log and its way into the stream.
var (
	published = add("events_published_total", counter,
		"Events that the stream accepted for the first time.", "type")
	pending = add("event_log_pending_events", gauge,
		"Events of the agency that wait for the stream.", "agency")
	oldest = add("event_log_oldest_pending_age_seconds", gauge,
		"How long the oldest of them has waited; 0 if none waits.", "agency")
	failures = add("publish_failures_total", counter,
		"Failed publish attempts by reason: full, gone, configuration, unknown, log.",
		"reason")
)

// NATS.
var (
	streamUsable = add("stream_usable", gauge,
		"1 while server and stream accept events, at the last check.")
)

// Forwarders, as far as the daemon runs them.
var (
	forwarderWaiting = add("forwarder_waiting_messages", gauge,
		"Messages that wait for the forwarder, at most half a minute ago.", "forwarder")
	forwarderEvents = add("forwarder_events_sent_total", counter, "Events that were delivered.",
		"forwarder")
	forwarderFailed = add("forwarder_failed_deliveries_total", counter,
		"Failed delivery attempts by reason: receiver (the receiver, its account or the network), busy (it asked to wait, or failed), unanswered, refused (the message).",
		"forwarder", "reason")
	forwarderDead = add("forwarder_dead_letters_total", counter,
		"Events that were moved to the dead letters; doorbell dlq ls shows them.", "forwarder")
	forwarderWaits = add("forwarder_waiting_seconds", gauge,
		"How long messages have waited without one being accepted; 0 if none waits.", "forwarder")
)

// The store.
var (
	storeUsed  = add("store_in_use_bytes", gauge, "Bytes of doorbell.db in use.")
	storeLimit = add("store_limit_bytes", gauge,
		"Maximum bytes in use: DOORBELL_STORE_MAX. Missing without a limit.")
)
