package events

import "time"

// Scope is what a halt covers.
type Scope string

// The scopes of a halt.
const (
	ScopeAgency          Scope = "agency"
	ScopeContactRequests Scope = "contact_requests"
	ScopeInsertion       Scope = "insertion"
)

// KeyRef names an API key without telling it.
type KeyRef struct {
	Fingerprint string `json:"fingerprint"` // sha256: and 8 hex digits
}

// Evidence is what was known about a refusal without asking again.
type Evidence struct {
	Body               string        `json:"body"` // none, json, html, challenge or other
	OtherAgenciesOfKey AgenciesOfKey `json:"otherAgenciesOfKey"`
}

// AgenciesOfKey counts the other agencies that use a key by their last response.
type AgenciesOfKey struct {
	Working int `json:"working"`
	Refused int `json:"refused"`
	Unknown int `json:"unknown"`
}

// AccessHalted: the API refused us, and we stopped asking for the scope.
type AccessHalted struct {
	Common
	// where the scope is an insertion
	PropertyReferenceID string `json:"propertyReferenceId,omitempty"`
	Scope               Scope  `json:"scope"`
	Operation           string `json:"operation"` // insertions or contact_requests
	Status              int    `json:"status"`
	// key_rejected, agency_not_linked, insertion_not_allowed, edge_challenge or unknown
	ProbableReason string   `json:"probableReason"`
	Evidence       Evidence `json:"evidence"`
	Key            KeyRef   `json:"key"`
	Advice         string   `json:"advice"`
	Resume         string   `json:"resume"` // the command that ends it
}

// AccessResumed: a halt ended.
type AccessResumed struct {
	Common
	// where the scope is an insertion
	PropertyReferenceID string    `json:"propertyReferenceId,omitempty"`
	Scope               Scope     `json:"scope"`
	HaltedAt            time.Time `json:"haltedAt"`
	Cause               string    `json:"cause"` // key_changed, operator or retry_succeeded
}

func (p *AccessHalted) facts() facts {
	return facts{kind: TypeAccessHalted, reference: p.PropertyReferenceID, scope: string(p.Scope)}
}

func (p *AccessResumed) facts() facts {
	return facts{kind: TypeAccessResumed, reference: p.PropertyReferenceID, scope: string(p.Scope)}
}
