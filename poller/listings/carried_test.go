package listings

import (
	"fmt"
	"strings"
	"testing"
)

// action is the response of onOffice to one action, and how it writes a record.
const (
	action = `{"status":{"code":200,"errorcode":0,"message":"OK"},"response":{"results":[{"actionid":"urn:onoffice-de-ns:smart:2.5:smartml:action:read",` +
		`"resourceid":"","resourcetype":"x","cacheable":true,"identifier":"","data":{"meta":{"cntabsolute":%d},"records":[%s]},` +
		`"status":{"errorcode":0,"message":"OK"}}]}}`
	actionPath = "/response/results/0/data/records"
)

func contactElements(n int) string {
	return fmt.Sprintf(`{"id":%d,"type":"searchcriteria","elements":{"createdAt":"2026-11-20T09:41:0%dZ","firstName":"Nora","lastName":"B-zq7",`+
		`"email":"n%d-zq7@example.org","message":"Guten Tag"}}`, n, n, n)
}

// TestTheRecordsOfTheOnlyActionAreFound reads what lies in the only result of an action.
func TestTheRecordsOfTheOnlyActionAreFound(t *testing.T) {
	body := fmt.Sprintf(action, 2, contactElements(2)+","+contactElements(1))
	for _, learned := range []Place{{}, {Path: actionPath, Known: true}} {
		page, err := fuzzContactRequests(bare(t), []byte(body), learned)
		if err != nil || len(page.ContactRequests) != 2 || page.Path != actionPath || page.Total != 2 {
			t.Fatalf("%+v, %v", page, err)
		}
		if r := page.ContactRequests[0]; r.CreatedAt.IsZero() || r.Contact().Email != "n2-zq7@example.org" || r.ID("id") != "2" {
			t.Errorf("%+v", r.Contact())
		}
		none, err := fuzzContactRequests(bare(t), []byte(fmt.Sprintf(action, 0, "")), learned)
		if err != nil || len(none.ContactRequests) != 0 || none.Unreadable != 0 {
			t.Errorf("none: %+v, %v", none, err)
		}
	}
	flat := fmt.Sprintf(action, 1, `{"id":5,"type":"estate","elements":{"propertyReferenceId":"a#b##","title":"Wohnung"}}`)
	insertions, err := decodeInsertions(t, flat)
	if err != nil || len(insertions.Insertions) != 1 || insertions.Path != actionPath {
		t.Errorf("%+v, %v", insertions, err)
	}
}

// TestResultsOfActionsAreNoContactRequests is of results that are no records, and of which it is not certain where those are.
func TestResultsOfActionsAreNoContactRequests(t *testing.T) {
	result := func(records string) string { return `{"actionid":"x","data":{"records":[` + records + `]}}` }
	for name, body := range map[string]string{
		"two actions, of which one has records": `{"response":{"results":[` + result("") + `,` + result(contactElements(1)) + `]}}`,
		"two actions without records":           `{"response":{"results":[` + result("") + `,` + result("") + `]}}`,
		"an action in an action":                `{"results":[{"data":{"records":[` + result(contactElements(1)) + `]}}]}`,
		"an action that failed":                 strings.Replace(fmt.Sprintf(action, 0, ""), `"code":200,"errorcode":0`, `"code":500,"errorcode":131`, 1),
		"a batch":                               `{"responses":[{"id":"1","status":200,"body":{"value":[]}},{"id":"2","status":200,"body":{"value":[]}}]}`,
	} {
		if page, err := decodeContactRequests(t, body); err == nil {
			t.Errorf("%s: %+v", name, page)
		}
	}
}
