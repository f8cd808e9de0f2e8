package listings

import "testing"

func TestAListInsideOneContactRequestIsNoListOfThem(t *testing.T) {
	const head = `"id":1,"createdAt":"2026-11-20T09:41:07Z",`
	for body, want := range map[string]string{ // the path
		`{"data":{` + head + `"email":"n@x","phones":[{"type":"mobile","number":"079"}]}}`:                    "/data",
		`{"data":{` + head + `"email":"n@x","viewingTimes":[{"from":"9","to":"10"}]}}`:                        "/data",
		`{"data":{` + head + `"email":"n@x","notes":[{"createdAt":"2026-11-20T09:41:07Z","text":"x"}]}}`:      "/data",
		`{"data":{` + head + `"emails":[{"value":"n@x"}]}}`:                                                   "/data",
		`{"data":{` + head + `"phone":"079","emails":[]}}`:                                                    "/data",
		`{"leads":{` + head + `"contact":{"phoneNumbers":[{"number":"079"}]}}}`:                               "/leads",
		`{"contactRequest":{` + head + `"email":"n@x","viewingTimes":[{"from":"9","to":"10"}]}}`:              "/contactRequest",
		`{` + head + `"email":"n@x","phones":[{"type":"mobile","number":"079"}]}`:                             "",
		`{"data":{` + head + `"odd":[{"id":7,"createdAt":"2026-11-20T09:41:07Z","email":"n@x"}]}}`:            "/data/odd",
		`{"data":{` + head + `"contact":{},"odd":[{"createdAt":"2026-11-20T09:41:07Z","email":"n@x"}]}}`:      "/data/odd",
		`{"data":{` + head + `"emails":[{"id":7,"createdAt":"2026-11-20T09:41:07Z","message":"Guten Tag"}]}}`: "/data/emails",
		`{"requestId":"x","createdAt":"2026-11-20T09:41:07Z","emails":[{"message":"Guten Tag","name":"N"}]}`:  "/emails",
	} {
		page, err := decodeContactRequests(t, body)
		if err != nil || page.Path != want || len(page.ContactRequests) != 1 {
			t.Errorf("%s: %+v, %v", body, page, err)
		}
	}
}

// TestListsInRecordsAreNotTakenForTheRecords is of lists that stand in records, or in place of which nothing stands.
func TestListsInRecordsAreNotTakenForTheRecords(t *testing.T) {
	for _, row := range []struct {
		learned, body, path string
		n                   int
	}{
		{"", `{"results":[{"email":"a@x","items":[{"x":1}]},{"email":"b@x","items":[{"x":2}]}]}`, "/results", 2},
		{"", `{"0":{"email":"n@x","items":[{"createdAt":"2026-11-20T09:41:07Z","email":"a@x"}]},"1":{"email":"m@x"}}`, "", 2},
		{"/a/b/c", `{"a":{"b":{"c":{}}}}`, "", 0},
	} {
		page, err := fuzzContactRequests(bare(t), []byte(row.body), Place{Path: row.learned, Known: row.learned != ""})
		if err != nil || page.Path != row.path || len(page.ContactRequests) != row.n {
			t.Errorf("%s: %+v, %v", row.body, page, err)
		}
	}
}
