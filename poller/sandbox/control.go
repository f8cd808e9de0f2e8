package sandbox

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"

	jsonv2 "github.com/go-json-experiment/json"
)

// maxControlBody bounds what Control reads.
const maxControlBody = 1 << 20

// Control drives and interrogates a model from another process. It belongs on a listener of its
// own, never on the one of the API, and needs no key.
//
// Changes are POST with a JSON body and answer 200 with JSON; 400 is a body with other members than
// these, or with values that do not fit or an id that is taken, 404 something that the model does
// not hold.
//
//	curl $C/keys -d '{"key":"7d5c…","agencies":["A100","B200"]}'          → {"label":"key-1"}
//	curl $C/keys/unlink -d '{"key":"7d5c…","agencies":["B200"]}'          from now on 403 for B200
//	curl $C/keys/deactivate -d '{"key":"7d5c…"}'
//	curl $C/insertions -d '{"agencyId":"A100","insertion":{"propertyReferenceId":"a#b##","offerType":"RENT"}}'
//	curl $C/insertions/edit -d '{"agencyId":"A100","propertyReferenceId":"a#b##","patch":{"prices":{"rent":{"gross":2790}}}}'
//	curl $C/insertions/withdraw -d '{"agencyId":"A100","propertyReferenceId":"a#b##"}'
//	curl $C/contact-requests -d '{"agencyId":"A100","propertyReferenceId":"a#b##","contactRequest":{"lastName":"Muster-zq7"}}'   → {"id":"…"}
//	curl $C/contact-requests/edit -d '{"id":"…","patch":{"status":"READ"}}'
//	curl $C/contact-requests/redact -d '{"id":"…"}'
//	curl $C/truth                                                          → a Truth
//	curl $C/requests                                                       → an array of Count
//
// Insertions and contact requests have the members of [Insertion] and [ContactRequest]; a patch has
// those that change, and null for those that go. A member below extra is replaced whole. A daemon
// that was refused with 403 sends requests again only after `doorbell resume`, or with another key.
func Control(m *Model) http.Handler {
	mux := http.NewServeMux()
	for path, change := range map[string]func(change) (any, error){
		"/keys": func(c change) (any, error) {
			return map[string]string{"label": m.AddKey(c.Key, c.Agencies...)}, nil
		},
		"/keys/unlink":         func(c change) (any, error) { return nil, m.UnlinkKey(c.Key, c.Agencies...) },
		"/keys/deactivate":     func(c change) (any, error) { return nil, m.DeactivateKey(c.Key) },
		"/insertions":          func(c change) (any, error) { return nil, m.Publish(c.AgencyID, c.Insertion) },
		"/insertions/withdraw": func(c change) (any, error) { return nil, m.Withdraw(c.AgencyID, c.Reference) },
		"/insertions/edit": func(c change) (any, error) {
			var bad error
			err := m.Edit(c.AgencyID, c.Reference, func(i *Insertion) { bad = patch(i, c.Patch) })
			return nil, errors.Join(bad, err)
		},
		"/contact-requests": func(c change) (any, error) {
			id, err := m.AddContactRequest(c.AgencyID, c.Reference, c.ContactRequest)
			return map[string]string{"id": id}, err
		},
		"/contact-requests/redact": func(c change) (any, error) { return nil, m.Redact(c.ID) },
		"/contact-requests/edit": func(c change) (any, error) {
			var bad error
			err := m.EditContactRequest(c.ID, func(r *ContactRequest) { bad = patch(r, c.Patch) })
			return nil, errors.Join(bad, err)
		},
	} {
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) { post(w, r, change) })
	}
	mux.HandleFunc("GET /truth", func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, m.Truth()) })
	mux.HandleFunc("GET /requests", func(w http.ResponseWriter, _ *http.Request) { reply(w, http.StatusOK, m.Counts()) })
	return mux
}

// change is what a body may hold; each path takes some of it.
type change struct {
	Key            string          `json:"key"`
	Agencies       []string        `json:"agencies"`
	AgencyID       string          `json:"agencyId"`
	Reference      string          `json:"propertyReferenceId"`
	Insertion      Insertion       `json:"insertion"`
	ID             string          `json:"id"`
	ContactRequest ContactRequest  `json:"contactRequest"`
	Patch          json.RawMessage `json:"patch"`
}

func post(w http.ResponseWriter, r *http.Request, do func(change) (any, error)) {
	var body change
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxControlBody))
	d.DisallowUnknownFields()
	var result any
	err := errBody
	if d.Decode(&body) == nil && !d.More() {
		result, err = do(body)
	}
	switch {
	case errors.Is(err, ErrNotFound):
		reply(w, http.StatusNotFound, map[string]string{"error": err.Error()})
	case err != nil:
		reply(w, http.StatusBadRequest, map[string]string{"error": err.Error()})
	case result == nil:
		reply(w, http.StatusOK, struct{}{})
	default:
		reply(w, http.StatusOK, result)
	}
}

// errBody is returned for a body or patch that does not fit. It does not say where: the parser's
// own words would quote what it read.
var errBody = errors.New("the body is not the JSON that this path expects")

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the other side is gone or has it
}

// patch changes the members of a record that a patch holds; if it does not fit, the record stays as
// it was.
func patch[T recorded[T]](record *T, p json.RawMessage) error {
	after := (*record).clone()
	if !bytes.HasPrefix(p, []byte("{")) ||
		jsonv2.Unmarshal(p, &after, jsonv2.RejectUnknownMembers(true)) != nil {
		return errBody
	}
	*record = after
	return nil
}
