package cli

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"doorbell/cmd/doorbell/check"
	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"
	"doorbell/poller/sandbox"
)

// checkAPI runs `doorbell check` against an API of two insertions and one body for contact requests. It may say nothing of
// a record.
func checkAPI(t *testing.T, contactRequests http.HandlerFunc, want int, words ...string) check.Report {
	t.Helper()
	s := doorbelltest.NewScene(t, "A100")
	environ := faced(t, s, func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/insertions") {
			_, _ = w.Write([]byte(`{"results":[{"propertyReferenceId":"geheim#1##"},{"propertyReferenceId":"geheim#2##"},{}],"total":3}`))
			return
		}
		contactRequests(w, r)
	})
	got := doorbelltest.Run(t, environ, "check")
	doorbelltest.Has(t, strings.Join(strings.Fields(got.Stdout), " "), words...)
	for _, secret := range []string{sandbox.Marker, "geheim", "2025-", "17600000", "heute", doorbelltest.TestKey} {
		if strings.Contains(got.Stdout+got.Stderr, secret) {
			t.Errorf("%q is in %s", secret, got.Stdout)
		}
	}
	r, _ := checked(t, s, want, environ)
	return r
}

func TestCheckShowsHowContactRequestsAreNamedAndDated(t *testing.T) {
	t.Parallel()
	for created, words := range map[string][]string{
		`"2025-10-09T10:00:00+0200"`: {"their id is /id", "date and time with an offset"},
		`"2025-10-09 10:00:00"`:      {"it is read as Europe/Zurich (DOORBELL_TIMEZONE)"},
		`1760000000`:                 {"in seconds since 1970"},
		`1760000000000`:              {"in milliseconds since 1970"},
		`"heute"`:                    {"warn their creation time is unreadable", "ask the provider for createdAt as RFC 3339"},
		`null`:                       {"warn their creation time is absent"},
	} {
		t.Run(created, func(t *testing.T) {
			t.Parallel()
			checkAPI(t, func(w http.ResponseWriter, _ *http.Request) {
				_, _ = w.Write([]byte(`{"leads":[{"id":"7","createdAt":` + created + `,"name":"` + sandbox.Marker + `"}],"total":1}`))
			}, exit.Done, append(words, "insertions are at /results, with a total", "elements of the list without a propertyReferenceId: 1", "contact requests are at /leads, with a total")...)
		})
	}
	t.Run("without an id", func(t *testing.T) {
		t.Parallel()
		checkAPI(t, func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`[{"createdAt":"2025-10-09T10:00:00Z","name":"` + sandbox.Marker + `"}]`))
		}, exit.Done, "contact requests are at the top of the response, without a total; no known member tells them apart", "name one in DOORBELL_CONTACT_ID_FIELDS")
	})
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		r := checkAPI(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }, exit.Done,
			"the insertions that were read have no contact request")
		if r.Requests != 3 {
			t.Errorf("%d requests", r.Requests)
		}
	})
}

func TestCheckStopsWhereItIsRefusedOrThrottled(t *testing.T) {
	t.Parallel()
	for status, words := range map[int]string{
		http.StatusForbidden:       "contact requests of an insertion that the list shows are refused: status 403 Forbidden",
		http.StatusTooManyRequests: "contact requests: status 429 Too Many Requests",
	} {
		r := checkAPI(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }, exit.CodeFailed, words)
		failsOnlyIn(t, r, check.SectionResponses)
		if r.Requests != 2 {
			t.Errorf("%d: %d requests", status, r.Requests)
		}
	}
}

func TestCheckAsksForSmallerPagesWhereTheSizeIsRefused(t *testing.T) {
	t.Parallel()
	model := sandbox.NewModel(sandbox.Options{Seed: 1})
	sandbox.NewGenerator(model, sandbox.GeneratorOptions{Seed: 1, Agencies: []string{"A100"}, Insertions: 70, History: 8}).Seed()
	model.AddKey(doorbelltest.TestKey, "A100")
	behind := sandbox.New(model, sandbox.Nested())
	s := doorbelltest.NewScene(t, "A100")
	s.Model = model
	refusing := faced(t, s, func(w http.ResponseWriter, r *http.Request) {
		if size := r.URL.Query().Get("pageSize"); size != "" && size != "20" {
			w.WriteHeader(http.StatusRequestedRangeNotSatisfiable)
			return
		}
		behind.ServeHTTP(w, r)
	})
	r, _ := checked(t, s, exit.Done, refusing, "A100: access, 70 insertions")
	if r.Requests > 1+check.MaxFurther {
		t.Errorf("%d requests", r.Requests)
	}
}

// TestCheckKnowsAnEmptyListWhereRecordsWereBefore has an API whose list has an unusual name, and becomes empty.
func TestCheckKnowsAnEmptyListWhereRecordsWereBefore(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100")
	body := func(text string) {
		s.Model.SetFault(func(c sandbox.Call) *sandbox.Fault {
			if c.Operation == sandbox.OperationInsertions {
				return &sandbox.Fault{Body: []byte(text)}
			}
			return nil
		})
	}
	body(`{"elsewhere":[{"propertyReferenceId":"` + s.Model.Truth().Insertions[0].Reference + `"}],"meta":[],"total":1}`)
	d := doorbelltest.Launch(t, s.Environ, "run")
	doorbelltest.SubscribeTo(t, doorbelltest.NatsURL(t, s.Dir)).Baselined(t, "A100")
	d.Stop(t)
	body(`{"elsewhere":[],"meta":[]}`)
	checked(t, s, exit.Done, s.Environ, "A100: access, but no insertion", "right if none is published")
	if got := doorbelltest.Run(t, s.With("DOORBELL_DATA_DIR="+t.TempDir()), "check"); got.Code != exit.CodeFailed {
		t.Errorf("an empty list of an unknown name is taken for none:\n%s", got.Stdout)
	}
}

func TestCheckBesideADaemonSendsOneRequestASecond(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100", "B200")
	label := s.Model.AddKey(doorbelltest.OtherKey, "A100", "B200")
	d := doorbelltest.Launch(t, s.Environ, "run")
	doorbelltest.SubscribeTo(t, doorbelltest.NatsURL(t, s.Dir)).Baselined(t, "A100", "B200")
	s.Model.KeepLog()
	got := doorbelltest.Run(t, s.With("DOORBELL_API_KEY="+doorbelltest.OtherKey), "check", "--json")
	var r check.Report
	if err := json.Unmarshal([]byte(got.Stdout), &r); err != nil || !r.OK || !r.DaemonRunning {
		t.Errorf("%v: %s%s", err, got.Stdout, got.Stderr)
	}
	var before time.Time
	for _, call := range s.Model.Log(sandbox.Filter{Key: label}) {
		if gap := call.At.Sub(before); gap < 900*time.Millisecond {
			t.Errorf("a request %s after another", gap)
		}
		before = call.At
	}
	if n := len(s.Model.Log(sandbox.Filter{Key: label})); n != r.Requests || n < 3 {
		t.Errorf("%d requests, %d reported", n, r.Requests)
	}
	d.Stop(t)
}
