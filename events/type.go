package events

// Type is what happened. It is both the ce-type attribute and the end of the subject.
type Type string

// The types of contract version 1.
const (
	TypeInsertionAppeared      Type = "insertion.appeared"
	TypeInsertionChanged       Type = "insertion.changed"
	TypeInsertionDisappeared   Type = "insertion.disappeared"
	TypeInsertionReappeared    Type = "insertion.reappeared"
	TypeContactRequestCreated  Type = "contact_request.created"
	TypeContactRequestChanged  Type = "contact_request.changed"
	TypeContactRequestRedacted Type = "contact_request.redacted"
	TypeAccessHalted           Type = "access.halted"
	TypeAccessResumed          Type = "access.resumed"
	TypeAccessKeySwitched      Type = "access.key_switched"
	TypeWatchBaselined         Type = "watch.baselined"
	TypeWatchStale             Type = "watch.stale"
	TypeWatchRecovered         Type = "watch.recovered"
	TypeWatchGapDetected       Type = "watch.gap_detected"
	TypeWatchSchemaDrifted     Type = "watch.schema_drifted"
	TypeWatchChangeHeld        Type = "watch.change_held"
	TypeWatchStreamRepaired    Type = "watch.stream_repaired"
)

// Types lists every type in the order of the contract.
var Types = []Type{
	TypeInsertionAppeared, TypeInsertionChanged, TypeInsertionDisappeared, TypeInsertionReappeared,
	TypeContactRequestCreated, TypeContactRequestChanged, TypeContactRequestRedacted,
	TypeAccessHalted, TypeAccessResumed, TypeAccessKeySwitched,
	TypeWatchBaselined, TypeWatchStale, TypeWatchRecovered, TypeWatchGapDetected,
	TypeWatchSchemaDrifted, TypeWatchChangeHeld, TypeWatchStreamRepaired,
}

// Schema is the ce-dataschema of a type, equal to the $id of its JSON Schema.
func (t Type) Schema() string { return "urn:doorbell:schema:" + string(t) + ":v1" }

// valid reports whether t can be a type, known to this version or not: lower-case words joined by dots. What passes is
// safe in headers and subjects.
func (t Type) valid() bool {
	word := false
	for _, c := range []byte(t) {
		switch {
		case 'a' <= c && c <= 'z', c == '_':
			word = true
		case c == '.' && word:
			word = false
		default:
			return false
		}
	}
	return word && len(t) <= maxToken
}

// Origin tells news from history.
type Origin string

// Origins: live is news, baseline was there before we began to watch, replay is sent again on request.
const (
	OriginLive     Origin = "live"
	OriginBaseline Origin = "baseline"
	OriginReplay   Origin = "replay"
)
