package sandbox

import (
	"encoding/json"
	"errors"
	"net/http"

	jsonv2 "github.com/go-json-experiment/json"
)

// maxControlBody bounds what Control reads.
const maxControlBody = 1 << 20

// Control drives and interrogates a model from another process. It belongs on a
// listener of its own, never on the one of the API, and asks for no key.
//
// Changes are POST with a JSON body and answer 200 with JSON; 400 is a body that
// is not what the path takes (unknown members included), 404 something that the
// model does not hold, 409 an id that is taken.
//
//	curl $C/agencies -d '{"agencyId":"A100"}'
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
// Insertions and contact requests have the members of [Insertion] and
// [ContactRequest]; a patch is a JSON merge patch (RFC 7396) of one.
func Control(m *Model) http.Handler {
	mux := http.NewServeMux()
	post(mux, "/agencies", func(b struct {
		AgencyID string `json:"agencyId"`
	},
	) (any, error) {
		m.AddAgency(b.AgencyID)
		return nil, nil
	})
	controlKeys(mux, m)
	controlInsertions(mux, m)
	controlContactRequests(mux, m)
	get(mux, "/truth", func() any { return m.Truth() })
	get(mux, "/requests", func() any { return m.Counts() })
	return mux
}

func controlKeys(mux *http.ServeMux, m *Model) {
	type body struct {
		Key      string   `json:"key"`
		Agencies []string `json:"agencies"`
	}
	post(mux, "/keys", func(b body) (any, error) {
		return map[string]string{"label": m.AddKey(b.Key, b.Agencies...)}, nil
	})
	post(mux, "/keys/unlink", func(b body) (any, error) { return nil, m.UnlinkKey(b.Key, b.Agencies...) })
	post(mux, "/keys/deactivate", func(b body) (any, error) { return nil, m.DeactivateKey(b.Key) })
}

func controlInsertions(mux *http.ServeMux, m *Model) {
	type body struct {
		AgencyID  string          `json:"agencyId"`
		Reference string          `json:"propertyReferenceId"`
		Insertion Insertion       `json:"insertion"`
		Patch     json.RawMessage `json:"patch"`
	}
	post(mux, "/insertions", func(b body) (any, error) { return nil, m.Publish(b.AgencyID, b.Insertion) })
	post(mux, "/insertions/withdraw", func(b body) (any, error) { return nil, m.Withdraw(b.AgencyID, b.Reference) })
	post(mux, "/insertions/edit", func(b body) (any, error) {
		var bad error
		err := m.Edit(b.AgencyID, b.Reference, func(i *Insertion) { bad = patch(i, b.Patch) })
		return nil, errors.Join(bad, err)
	})
}

func controlContactRequests(mux *http.ServeMux, m *Model) {
	type body struct {
		AgencyID       string          `json:"agencyId"`
		Reference      string          `json:"propertyReferenceId"`
		ContactRequest ContactRequest  `json:"contactRequest"`
		ID             string          `json:"id"`
		Patch          json.RawMessage `json:"patch"`
	}
	post(mux, "/contact-requests", func(b body) (any, error) {
		id, err := m.AddContactRequest(b.AgencyID, b.Reference, b.ContactRequest)
		return map[string]string{"id": id}, err
	})
	post(mux, "/contact-requests/redact", func(b body) (any, error) { return nil, m.Redact(b.ID) })
	post(mux, "/contact-requests/edit", func(b body) (any, error) {
		var bad error
		err := m.EditContactRequest(b.ID, func(c *ContactRequest) { bad = patch(c, b.Patch) })
		return nil, errors.Join(bad, err)
	})
}

func get(mux *http.ServeMux, path string, read func() any) {
	mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, read())
	})
}

func post[T any](mux *http.ServeMux, path string, change func(T) (any, error)) {
	mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
		var body T
		d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxControlBody))
		d.DisallowUnknownFields()
		if d.Decode(&body) != nil || d.More() {
			reply(w, http.StatusBadRequest, map[string]string{"error": errBody.Error()})
			return
		}
		result, err := change(body)
		if err != nil {
			reply(w, statusOf(err), map[string]string{"error": err.Error()})
			return
		}
		if result == nil {
			result = struct{}{}
		}
		reply(w, http.StatusOK, result)
	})
}

// errBody is returned for a body or patch that does not fit. It does not say
// where: the parser's own words would quote what it read.
var errBody = errors.New("the body is not the JSON that this path takes")

func statusOf(err error) int {
	switch {
	case errors.Is(err, ErrNotFound):
		return http.StatusNotFound
	case errors.Is(err, ErrExists):
		return http.StatusConflict
	}
	return http.StatusBadRequest
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the other side is gone or has it
}

// patch applies a merge patch to a record; if it does not fit, the record stays as it was.
func patch[T any](record *T, p json.RawMessage) error {
	before, err := json.Marshal(record)
	if err != nil {
		return errBody
	}
	changes := members(p)
	if changes == nil {
		return errBody
	}
	text, err := json.Marshal(merge(members(before), changes))
	var after T // a copy that shares nothing with the record
	if err != nil || jsonv2.Unmarshal(text, &after, jsonv2.RejectUnknownMembers(true)) != nil {
		return errBody
	}
	*record = after
	return nil
}

// merge is MergePatch of RFC 7396 for two objects: null removes a member, an object is merged into what is there, anything
// else takes its place.
func merge(target, changes object) object {
	for name, change := range changes {
		switch change := change.(type) {
		case nil:
			delete(target, name)
		case object:
			inner, _ := target[name].(object)
			if inner == nil {
				inner = object{}
			}
			target[name] = merge(inner, change)
		default:
			target[name] = change
		}
	}
	return target
}
