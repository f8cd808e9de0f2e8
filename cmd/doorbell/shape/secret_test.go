package shape

import (
	"encoding/json"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"
)

// The same response twice, with other values of the same form in every place. Where the values differ, they
// are marked: nothing of a mark may be written.
var twins = [2]map[string]string{
	{
		"text": "Norazq7", "word": "SEEFELDZQ7", "ref": "seefeldzq7#1203", "mail": "nora.zq7@example.org", "phone": "+41 79 918 27 36", "number": "91827364",
		"decimal": "918.273", "negative": "-91827", "uuid": "7f0c2b1e-6d1f-4a53-9a57-2f6f0d0f4c11", "hex": "7f0c2b1e6d1f4a53", "date": "2024-09-18T09:18:27Z",
		"spelled": "Wed, 18 Sep 2024 09:18:27 GMT", "epoch": "1726651107000", "umlaut": "Zürichzq7", "cyrillic": "Нораzq7", "url": "https://norazq7.example/x?918273",
		"path": "/norazq7/918273", "message": "Guten Tag, hier ist Nora zq7.\\nMein Code: 918273", "emoji": "😀zq7", "name": "Nora", "first": "nora", "digits": "918273",
		"control": "norazq7\\u0001", "half": "norazq7\\ud83d", "html": "<b>Norazq7</b>", "zone": "Europe/Norazq", "agency": "B918273", "camel": "noraMeierZq", "tag": "zq7-tag",
		"coded": "seefeldzq7%231203",
	},
	{
		"text": "Uelixk8", "word": "OERLIKOXK8", "ref": "oerlikoxk8#4567", "mail": "ueli.xk8@example.com", "phone": "+49 30 645 54 63", "number": "64554636",
		"decimal": "645.546", "negative": "-64554", "uuid": "a9b8c7d6-1e2f-4b64-8b68-1a5a1c1a5b22", "hex": "a9b8c7d61e2f4b64", "date": "2023-06-04T06:45:54Z",
		"spelled": "Sun, 04 Jun 2023 06:45:54 GMT", "epoch": "1685861154000", "umlaut": "Gösgenxk8", "cyrillic": "Уелиxk8", "url": "https://uelixk8.example/y?645546",
		"path": "/uelixk8/645546", "message": "Salut Mme, voici le Ueli xk8.\\nSein Code: 645546", "emoji": "🙈xk8", "name": "Ueli", "first": "ueli", "digits": "645546",
		"control": "uelixk8\\u0002", "half": "uelixk8\\ud83c", "html": "<i>Uelixk8</i>", "zone": "Africa/Uelixk", "agency": "C645546", "camel": "ueliMuellXk", "tag": "xk8-tag",
		"coded": "oerlikoxk8%234567",
	},
}

// everywhere has a value in every place where one may be.
const everywhere = `{
 "total": 1, "status": "‹text›", "state": "‹word›", "code": "‹mail›", "next": "‹url›", "cursor": "‹hex›", "hasMore": true,
 "message": "‹message›", "requestId": "‹uuid›", "generated": "‹spelled›", "count": ‹number›, "agencyId": "‹agency›",
 "owner": {"name": "‹text›", "nested": {"deeper": [["‹text›", ‹number›, "‹umlaut›", null]]}},
 "byPerson": {"‹name›": {"id": ‹number›}, "Other": {"id": 1}},
 "byFirst": {"‹first›": [1], "other": [2]},
 "leads": {"‹camel›": {"id": 1}}, "items": {"‹first›": [{"id": 1}]}, "requests": {"‹name›": "‹phone›"},
 "bySingle": {"‹first›": {"id": ‹number›}},
 "besideATotal": {"total": 2, "‹first›": {"id": ‹number›}, "‹camel›": {"id": 3}},
 "byCamel": {"‹camel›": {"a": 1}, "otherOne": {"a": 2}},
 "byMail": {"‹mail›": 3, "‹uuid›": 4, "‹digits›": 5, "‹tag›": "‹text›", "‹umlaut›": 6, "‹message›": 7, "‹ref›": "‹ref›"},
 "counters": {"‹first›": ‹number›, "andre": 1, "beate": 2},
 "warnings": [{"code": "‹text›", "message": "‹message›"}, "‹text›"],
 "results": [{
  "id": "‹uuid›", "propertyReferenceId": "‹ref›", "coded": "‹coded›", "createdAt": "‹date›", "updatedAt": ‹epoch›, "millis": "‹epoch›", "score": ‹decimal›, "low": ‹negative›, "email": "‹mail›",
  "from": "‹text› <‹mail›>", "reply": "mailto:‹mail›", "phone": "‹phone›", "lastName": "‹cyrillic›", "firstName": "‹umlaut›", "status": "‹word›", "type": "‹text›", "city": "‹emoji›",
  "message": "‹message›", "url": "‹url›", "path": "‹path›", "odd": "‹control›", "broken": "‹half›", "markup": "‹html›", "zone": "‹zone›", "hash": "‹hex›", "flag": true, "tags": ["‹tag›", "‹text›", ‹number›],
  "agent": {"‹camel›": {"phone": "‹phone›"}}, "phoneOf": {"‹camel›": "‹phone›"}, "extra": {"‹mail›": {"‹name›": ["‹text›"]}}, "people": [{"‹name›": "‹text›"}, {"Someone": "‹umlaut›"}]
 }]
}`

func fill(t *testing.T, text string, values map[string]string) string {
	t.Helper()
	for name, value := range values {
		text = strings.ReplaceAll(text, "‹"+name+"›", value)
	}
	if strings.Contains(text, "‹") {
		t.Fatalf("a place was not filled: %s", text[strings.Index(text, "‹"):])
	}
	return text
}

func headersOf(values map[string]string) http.Header {
	h := http.Header{}
	h.Set("Content-Type", "application/vnd."+values["first"]+"+json")
	h.Set("Link", "<"+values["url"]+`>; rel="next"; title="`+values["text"]+`"`)
	h.Set("Location", values["url"])
	h.Set("Etag", `"`+values["hex"]+`"`)
	h.Set("Retry-After", values["digits"])
	h.Set("Date", values["spelled"])
	h.Set("X-Ratelimit-Limit", values["digits"])
	h.Set("X-Total-Count", values["digits"])
	h.Set("Content-Range", values["tag"]+" 0-9/"+values["digits"])
	h.Set("Www-Authenticate", "ApiKey realm="+values["text"])
	h.Set("Set-Cookie", "session="+values["hex"])
	h.Set("X-"+values["first"], values["text"])
	return h
}

// TestNothingOfAValueIsWritten describes two responses that differ in every value: the files are equal, so
// nothing in them comes from a value, and no mark is in them.
func TestNothingOfAValueIsWritten(t *testing.T) {
	for name, body := range map[string]string{
		"everywhere":   everywhere,
		"one record":   `{"id": ‹number›, "createdAt": "‹date›", "status": "‹text›", "name": "‹text›", "email": "‹mail›", "flag": false}`,
		"a list":       `["‹text›", ‹number›, ["‹umlaut›"], {"‹mail›": "‹text›"}]`,
		"a text":       `"‹message›"`,
		"a number":     `‹number›`,
		"a refusal":    `{"message": "‹text› may not read ‹ref›", "error": {"code": "‹text›", "details": ["‹mail›"]}, "user": "‹text›", "path": "‹path›", "timestamp": "‹date›"}`,
		"a page":       `<html><h1>‹text›</h1>‹mail›</html>`,
		"a plain text": `‹text› ‹mail›`,
		"broken JSON":  `{"results": [{"name": "‹text›"`,
		"two":          `{"name": "‹text›"} {"name": "‹text›"}`,
	} {
		for _, status := range []int{200, 403, 500} {
			t.Run(name, func(t *testing.T) {
				var files [2]Response
				for n, values := range twins {
					for _, operation := range []string{Insertions, ContactRequests} {
						a := Asked{Operation: operation, Agency: "A100", Reference: "a#b##", Query: url.Values{
							"pageSize": {"100"}, "searchQuery": {values["text"]}, "offerType": {values["word"]},
						}}
						r := Describe(a, status, headersOf(values), []byte(fill(t, body, values)))
						files[n] = r
						assertNoValue(t, r, values)
					}
				}
				if !reflect.DeepEqual(files[0], files[1]) {
					t.Errorf("the files differ:\n%v %s\n%v %s", files[0].Headers, files[0].Body, files[1].Headers, files[1].Body)
				}
			})
		}
	}
}

func assertNoValue(t *testing.T, r Response, values map[string]string) {
	t.Helper()
	text, err := json.MarshalIndent(r, "", " ")
	must(t, err)
	whole := strings.ToLower(string(text))
	for _, mark := range []string{"zq7", "xk8", "zq", "xk", "nora", "ueli", "9182", "6455", "7f0c", "a9b8", "seefeld", "oerlik", "zürich", "gösgen", "нора", "уели", "2024", "2023", "session", "guten", "salut"} {
		if strings.Contains(whole, mark) {
			at := strings.Index(whole, mark)
			t.Errorf("%s: %s", mark, whole[max(0, at-60):min(len(whole), at+60)])
		}
	}
	for name, value := range values {
		if strings.Contains(string(text), value) {
			t.Errorf("the %s is written", name)
		}
	}
}

// TestNamesOfTheTradeAreWritten keeps the file useful: names of members that are no data are in it.
func TestNamesOfTheTradeAreWritten(t *testing.T) {
	r := Describe(Asked{Operation: Insertions, Agency: "A100"}, 200, http.Header{"Content-Type": {"application/json; charset=UTF-8"}},
		[]byte(`{"paging":{"total":163,"hasNext":true},"results":[{"propertyReferenceId":"a#b##","RoomCount":3,"price":{"amount":2890},"petsAllowed":true},
		{"propertyReferenceId":"c#d##","RoomCount":4,"price":{"amount":1200},"petsAllowed":null}]}`))
	const want = `{"paging":{"total":"{number larger total}","hasNext":"{boolean more}"},"results":["{records}",` +
		`{"propertyReferenceId":"{1 x#x##}","RoomCount":"{number 1 9}","price":{"amount":"{number 1 9999}"},"petsAllowed":"{boolean}"},` +
		`{"propertyReferenceId":"{2 x#x##}","RoomCount":"{number 2 9}","price":{"amount":"{number 2 9999}"},"petsAllowed":null}]}`
	if string(r.Body) != want || r.Headers["Content-Type"] != "application/json; charset=utf-8" {
		t.Errorf("%v\n%s, want\n%s", r.Headers, r.Body, want)
	}
}
