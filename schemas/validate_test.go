package schemas_test

import (
	"strings"
	"sync"
	"testing"

	"doorbell/schemas"
	"doorbell/schemas/schematest"
)

// recorder is a test that only remembers whether it failed, and with which words.
type recorder struct {
	testing.TB
	said string
}

func (r *recorder) Helper() {}
func (r *recorder) Error(args ...any) {
	for _, a := range args {
		r.said += a.(error).Error()
	}
}

func TestValidateFailsTheTestOfAWrongPayload(t *testing.T) {
	good, _ := schemas.Example("watch.recovered")
	for data, want := range map[string]bool{string(good): true, `{}`: false, `[]`: false, `{`: false, ``: false, string(good) + `{}`: false} {
		r := new(recorder)
		schematest.Validate(r, "watch.recovered", []byte(data))
		if passed := r.said == ""; passed != want {
			t.Errorf("%.20q…: passed is %v", data, passed)
		}
	}
}

func TestErrorsSayWhereAndQuoteNothing(t *testing.T) {
	const secret = "nora.beispiel@example.org"
	example, _ := schemas.Example("contact_request.created")
	for _, c := range []struct{ old, new, want string }{
		{`"phone": "+41790000123"`, `"phone": ["` + secret + `"]`, "/contact/phone: type"},
		{`"identity": "id"`, `"identity": "` + secret + `"`, "/identity: enum"},
		{`"createdAt": "2026-11-20T09:41:07Z"`, `"createdAt": "` + secret + `"`, "/createdAt: format"},
		{`"observedAt"`, `"` + secret + `"`, "/: required observedAt"},
		{`"rooms": 3.5`, `"rooms": "` + secret + `"`, "/insertion/rooms: type"},
		{`"status": "NEW"`, `"status": "` + secret, "no JSON"},
	} {
		if !strings.Contains(string(example), c.old) {
			t.Fatalf("the example has no %s", c.old)
		}
		err := schematest.Check("contact_request.created", []byte(strings.Replace(string(example), c.old, c.new, 1)))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error is %v, want %s", err, c.want)
			continue
		}
		if strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the error quotes the value", c.want)
		}
	}
}

func TestATypeWithoutSchemaIsAnError(t *testing.T) {
	if schematest.Check("insertion.exploded", []byte(`{}`)) == nil {
		t.Error("passes")
	}
}

func TestSchemasCompileWhenManyAskAtOnce(t *testing.T) {
	example, _ := schemas.Example("watch.stale")
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() { schematest.Validate(t, "watch.stale", example) })
	}
	all.Wait()
}
