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
	buildInfo = add("build_info", gauge, "Always 1; the labels say which doorbell runs and which Go built it.", "version", "goversion")
	ready     = add("ready", gauge, "1 if what is found can be kept and published, as /readyz says. A halted agency does not matter for it.")
)

// The API.
var (
	apiUp = add("api_up", gauge, "0 while there is no connection to the base URL of the API: DNS, TCP or TLS fails.")

	budgetLimit = add("budget_limit_requests_per_second", gauge,
		"The ceiling over everything that is sent to the API: DOORBELL_REQUESTS_PER_SECOND.")
	budgetEffective = add("budget_effective_requests_per_second", gauge,
		"What is left of the ceiling while the API throttles requests (429, or 503 with Retry-After).")
	budgetSpent = add("budget_spent_requests_total", counter, "Requests that were granted. Its rate over the ceiling is the use of the budget.")
)

// The watch of an agency.
var (
	agencyState = add("agency_state", gauge,
		"Always 1; the label is the state of the agency: starting, baselining, watching, held, backing_off, stale, halted or waiting_for_stream.", "agency", "state")
	halts = add("halts", gauge,
		"Scopes of the agency whose polling stopped because the API answered 401 or 403: agency, contact_requests or insertion.",
		"agency", "scope")
	changeHeld = add("change_held", gauge,
		"1 while so many insertions are missing at once that it is not announced yet; doorbell approve accepts it.", "agency")
	alarms = add("alarms", gauge,
		"Alarms in force: stale (no successful response), schema_drifted (answers have changed their form), gap_detected (not everything can be seen).",
		"agency", "kind")
	insertions = add("insertions", gauge, "Insertions of the agency that the last walks have listed.", "agency")
	lastGood   = add("last_good_answer_timestamp_seconds", gauge,
		"When the API gave the last good answer for the agency, in seconds since 1970. Left out where this process had none.", "agency")
	lastWalk = add("last_complete_walk_timestamp_seconds", gauge,
		"When the last complete reading of the list of insertions began, in seconds since 1970. Left out where there was none.", "agency")
	walks       = add("walks_total", counter, "Readings of the list of insertions, by verdict: complete or partial.", "agency", "verdict")
	walkSeconds = add("last_walk_duration_seconds", gauge, "How long the last reading of the list of insertions took.", "agency")
	turns       = add("turns_total", counter,
		"Why insertions were polled: index (a contact request is most likely there), cap (it would wait too long), urgent (new, changed or asked for), retry.",
		"agency", "reason")
	oldestPoll   = add("oldest_poll_age_seconds", gauge, "Age of the last poll of the insertion that waits the longest for its next one.", "agency")
	pollLimit    = add("poll_age_limit_seconds", gauge, "No insertion should wait longer for its poll; see DOORBELL_MAX_STALENESS.", "agency")
	pastLimit    = add("insertions_past_limit", gauge, "Insertions that wait longer than that.", "agency")
	neverPolled  = add("insertions_never_polled", gauge, "Insertions that have not been polled yet.", "agency")
	leadsLastDay = add("leads_last_day", gauge, "New contact requests, recorded in the current hour and the 23 before it.", "agency")
)

// The event log and its way into the stream.
var (
	appended  = add("events_appended_total", counter, "Events that were added to the event log.", "type")
	published = add("events_published_total", counter, "Events that the stream accepted for the first time.", "type")
	last      = add("event_log_last_sequence", gauge, "Sequence of the newest event of the agency.", "agency")
	acked     = add("event_log_acknowledged_sequence", gauge, "Sequence of the newest event of the agency that the stream holds.", "agency")
	pending   = add("event_log_pending_events", gauge, "Events of the agency that wait for the stream.", "agency")
	oldest    = add("event_log_oldest_pending_age_seconds", gauge, "How long the oldest of them has waited; 0 if none waits.", "agency")
	failing   = add("relay_failing", gauge, "1 while the last attempt to publish for the agency failed; doorbell status says why.", "agency")
	rival     = add("relay_rival", gauge, "1 where another doorbell has published the agency since this one started.", "agency")
	failures  = add("publish_failures_total", counter,
		"Attempts to publish that failed, by reason: full, gone, configuration, unknown, log.", "reason")
)

// NATS.
var (
	natsConnected = add("nats_connected", gauge, "1 while doorbell is connected to NATS.")
	streamUsable  = add("stream_usable", gauge, "1 while server and stream accept events, as of the last check.")
	natsEmbedded  = add("nats_embedded", gauge, "1 if the NATS server is the embedded one; only then are there metrics that begin with doorbell_nats_server.")

	serverConnections = add("nats_server_connections", gauge, "Connections to the embedded server, doorbell's own among them.")
	serverSubs        = add("nats_server_subscriptions", gauge, "Subscriptions at the embedded server.")
	serverMessages    = add("nats_server_messages_total", counter, "Messages that the embedded server received (in) and sent (out).", "direction")
	serverBytes       = add("nats_server_bytes_total", counter, "Bytes of these messages.", "direction")
	serverSlow        = add("nats_server_slow_consumers_total", counter, "Clients that were disconnected because they read too slowly.")
	serverRestarts    = add("nats_server_restarts_total", counter, "Restarts of the embedded server because it accepted nothing.")
	streamMessages    = add("nats_server_stream_messages", gauge, "Messages in a stream of the embedded server.", "stream")
	streamBytes       = add("nats_server_stream_bytes", gauge, "Bytes in a stream of the embedded server.", "stream")
	streamConsumers   = add("nats_server_stream_consumers", gauge, "Consumers of a stream of the embedded server.", "stream")
	streamLimit       = add("nats_server_stream_limit_bytes", gauge, "Most bytes of the stream of events: DOORBELL_STREAM_MAX.")
)

// Forwarders, as far as the daemon runs them.
var (
	forwarderWorking  = add("forwarder_working", gauge, "0 while the forwarder gets nothing from NATS; doorbell status says why.", "forwarder")
	forwarderWaiting  = add("forwarder_waiting_messages", gauge, "Messages that wait for the forwarder, as of at most half a minute ago.", "forwarder", "kind")
	forwarderMessages = add("forwarder_messages_sent_total", counter, "Messages that the receiver accepted. A digest of several events is one.", "forwarder", "kind")
	forwarderEvents   = add("forwarder_events_sent_total", counter, "Events in these messages.", "forwarder", "kind")
	forwarderDead     = add("forwarder_dead_letters_total", counter,
		"Events that were moved to the dead letters; doorbell dlq ls shows them.", "forwarder", "kind")
	forwarderWaits   = add("forwarder_waiting_seconds", gauge, "For how long messages have waited without one being accepted; 0 if none waits.", "forwarder", "kind")
	forwarderFailing = add("forwarder_failing_seconds", gauge, "For how long a receiver of the forwarder has accepted nothing; 0 if all do.", "forwarder", "kind")
	forwarderLast    = add("forwarder_last_sent_timestamp_seconds", gauge,
		"When a receiver accepted the last message, in seconds since 1970. Left out before the first.", "forwarder", "kind")
)

// The store.
var (
	storeUsed    = add("store_in_use_bytes", gauge, "Bytes of doorbell.db that hold something.")
	storeLimit   = add("store_limit_bytes", gauge, "Most bytes in use: DOORBELL_STORE_MAX. Left out where there is no bound.")
	storeFile    = add("store_file_bytes", gauge, "Size of doorbell.db. Free space in it is used by later commits.")
	storeCommits = add("store_commits_total", counter, "Transactions that were written, each with an fsync.")
	storeAlarm   = add("store_nearly_full", gauge, "1 while the store holds at least 80 % of what it may.")
	storeFull    = add("store_full", gauge, "1 while the store holds all that it may: polling stops then.")
)
