package listings

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

func TestADefectStaysInItsRecord(t *testing.T) {
	deep := strings.Repeat(`[`, 70) + strings.Repeat(`]`, 70)
	for _, row := range []struct{ record, want, defects string }{
		{`{"a" : "x"}`, `{"a":"x"}`, ""},
		{`{"a":"\ud83d\ude00\u00e4\/"}`, `{"a":"\ud83d\ude00\u00e4\/"}`, ""},
		{`{"a":"\ud800 x","b": 1.0}`, "{\"a\":\"\uFFFD x\",\"b\":1.0}", DefectUTF8},
		{"{\"a\":\"Z\xfcrich\"}", "{\"a\":\"Z\uFFFDrich\"}", DefectUTF8},
		{"{\"Z\xfcrich\":1}", "{\"Z\uFFFDrich\":1}", DefectUTF8},
		{`{"a":1,"b":2,"a":{"c" : 3}}`, `{"b":2,"a":{"c":3}}`, DefectDuplicateName},
		{`{"x":[{"a":1,"a":2}]}`, `{"x":[{"a":2}]}`, DefectDuplicateName},
		{`{"a":1,"a":"\udc00"}`, "{\"a\":\"\uFFFD\"}", DefectDuplicateName + " " + DefectUTF8},
		{`{"x":` + deep + `}`, `{"x":` + strings.Repeat("[", 63) + "null" + strings.Repeat("]", 63) + `}`, DefectTooDeep},
		{`{"q":"\"","x":` + deep + `}`, `{"q":"\"","x":` + strings.Repeat("[", 63) + "null" + strings.Repeat("]", 63) + `}`, DefectTooDeep},
		{`{"x":"` + strings.Repeat(`[\"`, 200) + `"}`, `{"x":"` + strings.Repeat(`[\"`, 200) + `"}`, ""},
	} {
		with := func(reference string) string { return `{"propertyReferenceId":"` + reference + `",` + row.record[1:] }
		page, err := decodeInsertions(t, `{"results":[`+with("a")+`,{"propertyReferenceId":"good"}]}`)
		if err != nil || len(page.Insertions) != 2 {
			t.Fatalf("%s: %v", row.record, err)
		}
		i := page.Insertions[0]
		want := strings.Replace(row.want, "{", `{"propertyReferenceId":"a",`, 1)
		if row.defects != "" { // it is mended, in canonical order
			mended := jsontext.Value(want)
			_ = mended.Canonicalize(jsontext.CanonicalizeRawInts(false), jsontext.CanonicalizeRawFloats(false))
			want = string(mended)
		}
		if string(i.Record) != want || strings.Join(i.Defects, " ") != row.defects {
			t.Errorf("%s: %s, defects %v", row.record, i.Record, i.Defects)
		}
		if page.Insertions[1].Defects != nil {
			t.Error("the trouble spread")
		}
		if d, err := Digest(i.Record, nil); err != nil || d != i.Digest {
			t.Errorf("%s: not the digest of its record, %v", row.record, err)
		}
	}
}

func digest(t testing.TB, record string, ignore ...string) [32]byte {
	t.Helper()
	d, err := Digest(json.RawMessage(record), ignore)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestTheDigestSeesContentOnly(t *testing.T) {
	same := [][2]string{
		{`{"a":1,"b":[2,{"c":3,"d":4}]}`, ` { "b" : [ 2 , { "d" : 4, "c" : 3 } ] , "a" : 1 } `},
		{`{"a":"\u00e4\/"}`, `{"a":"ä/"}`},
		{`{"views":1,"a":{"views":2,"b":3},"l":[{"x":1},2]}`, `{"views":9,"a":{"views":9,"b":3},"l":[{"x":2},2]}`},
		{`{"a~/b":1}`, `{}`},
	}
	for _, row := range same {
		ignore := []string{"/views", "/a/views", "/l/0/x", "/a~0~1b", "/missing/deep"}
		if digest(t, row[0], ignore...) != digest(t, row[1], ignore...) {
			t.Errorf("%s and %s differ", row[0], row[1])
		}
	}
	different := [][2]string{
		{`{"id":9007199254740993}`, `{"id":9007199254740992}`},
		{`{"a":1}`, `{"a":"1"}`},
		{`{"a":1}`, `{"a":1.0}`},
		{`[1,2]`, `[2,1]`},
		{`{"a":null}`, `{}`},
		{`{"a":{"views":1}}`, `{"a":{"views":2}}`},
		{`1`, `2`},
		{`"a"`, `"b"`},
		{`[[1],2]`, `[1,[2]]`},
	}
	for _, row := range different {
		if digest(t, row[0], "/views") == digest(t, row[1], "/views") {
			t.Errorf("%s and %s are equal", row[0], row[1])
		}
	}
	for _, bad := range []string{"", "{", "x", `{"a":1}{}`, `{"SENTINEL":1,"SENTINEL":2}`, "\"SENTINEL\xff\"", `[1,]`} {
		if _, err := Digest(json.RawMessage(bad), []string{"/a"}); err == nil || strings.Contains(err.Error(), "SENTINEL") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// The contract shows four whole messages; three of them hold a record of the API and what is to be read from it.
func TestTheContractsRecordsGiveTheContractsInsertionAndContact(t *testing.T) {
	for _, name := range []string{"contact_request.created", "insertion.appeared", "insertion.changed"} {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile("testdata/" + name + ".json")
			if err != nil {
				t.Fatal(err)
			}
			var message struct {
				PropertyReferenceID, ContactRequestID string
				CreatedAt                             time.Time
				Score, Contact, Insertion, Record     json.RawMessage
			}
			if err := json.Unmarshal(text, &message); err != nil {
				t.Fatal(err)
			}
			if name == "contact_request.created" {
				page, err := decodeContactRequests(t, "["+string(message.Record)+"]")
				if err != nil {
					t.Fatal(err)
				}
				r := page.ContactRequests[0]
				sameJSON(t, r.Contact(), message.Contact)
				if r.ID("id") != message.ContactRequestID || !r.CreatedAt.Equal(message.CreatedAt) || !bytes.Equal(r.Score, message.Score) {
					t.Errorf("%+v", r)
				}
				return
			}
			page, err := decodeInsertions(t, `{"results":[`+string(message.Record)+`]}`)
			if err != nil {
				t.Fatal(err)
			}
			if page.Insertions[0].Reference != message.PropertyReferenceID {
				t.Error(page.Insertions[0].Reference)
			}
			want := message.Insertion
			if name == "insertion.changed" { // the example's record leaves out the url that its summary shows
				want = bytes.Replace(want, []byte("},\n    \"url\": \"https://portal.example/d/4001234567\""), []byte("}"), 1)
			}
			sameJSON(t, page.Insertions[0].Summary(), want)
		})
	}
}

// sameJSON compares a struct with a JSON object whose names are those of its fields.
func sameJSON[T any](t *testing.T, got T, want json.RawMessage) {
	t.Helper()
	var w T
	d := json.NewDecoder(bytes.NewReader(want))
	d.DisallowUnknownFields()
	if err := d.Decode(&w); err != nil {
		t.Fatal(err)
	}
	g, _ := json.Marshal(got)
	if e, _ := json.Marshal(w); !bytes.Equal(g, e) {
		t.Errorf("\n%s, want\n%s", g, e)
	}
}

func TestSummariesAreReadFromOtherShapes(t *testing.T) {
	for record, want := range map[string]string{
		`{}`: `{}`,
		`{"title":" T ","street":"Weg","houseNumber":3,"zip":8005,"city":"Zürich","rooms":"4.5","livingArea":100,"grossRent":"2100","currency":"CHF","url":"javascript:alert(1)"}`: `{"Title":"T","Street":"Weg 3","PostalCode":"8005","Locality":"Zürich","Rooms":"4.5","LivingSpace":100,"Price":{"Amount":"2100","Currency":"CHF"}}`,
		`{"prices":{"currency":"CHF","buy":{"price":1500000},"rent":{}},"offerType":"BUY","url":"https://x.example/1"}`:                                                            `{"Price":{"Amount":1500000,"Currency":"CHF"},"OfferType":"BUY","URL":"https://x.example/1"}`,
		`{"prices":{"currency":"CHF","rent":{"net":1000,"interval":"MONTH"},"buy":{"price":5}}}`:                                                                                   `{"Price":{"Amount":1000,"Currency":"CHF","Interval":"MONTH"}}`,
		`{"localization":{"primary":"fr","de":{"text":{"title":"D"}},"fr":{"text":{"title":"F"}}},"title":"x"}`:                                                                    `{"Title":"F"}`,
		`{"localization":{"primary":"rm","it":{"text":{"title":"I"}}}}`:                                                                                                            `{"Title":"I"}`,
		`{"title":{"de":"x"},"address":"Weg 3","characteristics":[1],"prices":null,"rankType":7,"rooms":"many","offerType":{}}`:                                                    `{}`,
		`{"rooms":1e3,"livingSpace":"0x10","address":{"postal_code":"8005","Locality":"Z"},"listingType":{"type":"TOP"}}`:                                                          `{"Rooms":1e3,"PostalCode":"8005","Locality":"Z","RankType":"TOP"}`,
	} {
		sameJSON(t, Insertion{Record: json.RawMessage(record)}.Summary(), json.RawMessage(want))
	}
}

func fingerprint(t *testing.T, record string) [16]byte {
	t.Helper()
	page, err := decodeContactRequests(t, "["+record+"]")
	if err != nil {
		t.Fatal(err)
	}
	return printOf(page.ContactRequests[0], "a#b##")
}

func TestTheFingerprintIsThatOfThePersonAndTheMomentOnly(t *testing.T) {
	a := `{"id":1,"createdAt":"2026-11-20T10:41:07+0100","score":1,"email":"N@example.org","phone":"079 000 01 23","message":"Hi"}`
	same := []string{
		strings.Replace(a, `"id":1`, `"id":2`, 1), strings.Replace(a, `"score":1`, `"score":2`, 1), strings.Replace(a, "10:41:07+0100", "09:41:07Z", 1),
		strings.Replace(a, "079 000 01 23", "+41790000123", 1), strings.Replace(a, "N@", "m@", 1), strings.Replace(a, "01 23", "01 24", 1),
		strings.Replace(a, `"2026-11-20T10:41:07+0100"`, "1795167667250", 1),
		`{"contact":{"email":"n@example.org","phone":"0790000123"},"created_at":1795167667,"message":"Hi"}`,
	}
	for _, b := range same {
		if fingerprint(t, a) != fingerprint(t, b) {
			t.Errorf("%s differs", b)
		}
	}
	for _, b := range []string{
		strings.Replace(a, "41:07", "41:08", 1), strings.Replace(a, "Hi", "Ho", 1), strings.Replace(a, `"Hi"`, `"Hi","lastName":"B"`, 1),
		`{"name":"A"}`, `{"name":"B","score":1}`,
	} {
		if fingerprint(t, a) == fingerprint(t, b) {
			t.Errorf("%s does not differ", b)
		}
	}
	if fingerprint(t, `{"name":"A","score":1}`) == fingerprint(t, `{"name":"B","score":1}`) || fingerprint(t, `{"name":"A","score":1}`) != fingerprint(t, `{"name":"A","score":2}`) {
		t.Error("records without time, address and message")
	}
	if fingerprint(t, `{"email":"ab","message":"c"}`) == fingerprint(t, `{"email":"a","message":"bc"}`) {
		t.Error("parts are not separated")
	}
	if printOf((ContactRequest{}), "a") == printOf((ContactRequest{}), "b") {
		t.Error("the reference does not count")
	}
}

func TestPersonFieldsNameWhatHoldsThePerson(t *testing.T) {
	for record, want := range map[string]string{
		`{"status":"NEW","score":5,"contact":{"phone":null,"email":"x","tags":[]},"message":"","sender":null,"viewingTimes":{}}`: "contact/email false, contact/phone true, contact/tags true, message true, sender true",
		`{"contactRequest":{"score":1,"status":"NEW","person":{"email":null,"score":2}},"metadata":{"portal":"p","Score":4}}`:    "contactRequest/person/email true, contactRequest/person/score false",
	} {
		var got []string
		for _, f := range (ContactRequest{Record: json.RawMessage(record)}).PersonFields() {
			got = append(got, fmt.Sprint(f.Name, " ", f.Empty))
		}
		if strings.Join(got, ", ") != want {
			t.Errorf("got  %s\nwant %s", strings.Join(got, ", "), want)
		}
	}
	var many []string
	for n := range 1000 {
		many = append(many, fmt.Sprintf(`"m%d":%d`, n, n))
	}
	r := ContactRequest{Record: json.RawMessage(`{"contact":{` + strings.Join(many, ",") + `}}`)}
	if n := len(r.PersonFields()); n != maxFields {
		t.Errorf("%d fields", n)
	}
}

func TestOtherIdsAreThoseOfTheRequest(t *testing.T) {
	const record = `{"id":1,"ticketId":"t","propertyId":2,"userId":3,"paid":true,"grid":4,"metadata":{"vorgang_id":5},"contact":{"personId":6,"fooId":7},"emptyId":"","tenantID":8}`
	want := []OtherID{{"ticketid", "t"}, {"vorgangid", "5"}}
	if got := (ContactRequest{Record: json.RawMessage(record)}).OtherIDs(IDFields); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

func TestScoresArePassedOnAsTheyAre(t *testing.T) {
	for record, want := range map[string]string{
		`{"score":72.50}`: "72.50", `{"score":"high"}`: `"high"`, `{"score":null}`: "null", `{"x":1}`: "", `{"contactRequest":{"score":3}}`: "3", `{"score":{}}`: "", `{"score":true}`: "", `{"score":[1]}`: "",
	} {
		page, err := decodeContactRequests(t, "["+record+"]")
		if err != nil || string(page.ContactRequests[0].Score) != want {
			t.Errorf("%s: %v %v", record, page, err)
		}
	}
}

func TestScoreAndIdsAreInNoDigestHoweverTheyAreSpelled(t *testing.T) {
	digest := func(record string) [32]byte {
		return ContactRequest{Record: []byte(record)}.Digest(NewOutside([]string{"/views", "/a/0"}, []string{"ticket"}))
	}
	const bare = `{"id":1,"lead":{"x":2},"a":[true,{"score":3}]}`
	for _, same := range []string{
		`{"score":1,"id":1,"lead":{"x":2},"a":[true,{"score":3}]}`, `{"SCORE":null,"id":1,"lead":{"x":2,"sc_ore":7},"a":[{},{"score":3}]}`,
		`{"views":4,"lead":{"_Score":{"b":1},"x":2},"a":[5,{"score":3}],"\u0069d":1,"\u0073core":1}`,
		`{"id":"1","lead":{"x":2,"lead_id":9},"a":[true,{"score":3}]}`, `{"Ticket":7,"lead":{"x":2},"a":[true,{"score":3}]}`,
		`{"propertyReferenceId":"a#b##","lead":{"x":2},"a":[true,{"score":3}]}`,
	} {
		if digest(same) != digest(bare) {
			t.Errorf("another digest: %s", same)
		}
	}
	for _, other := range []string{
		`{"id":1,"lead":{"x":2},"a":[true,{"score":4}]}`, `{"id":1,"lead":{"x":2,"y":{"score":1}},"a":[true,{"score":3}]}`, `{"id":1,"scores":1,"lead":{"x":2},"a":[true,{"score":3}]}`,
		`{"id":1,"lead":{"x":2.0},"a":[true,{"score":3}]}`, `{"id":1,"lead":{"x":2,"views":1},"a":[true,{"score":3}]}`,
	} {
		if digest(other) == digest(bare) {
			t.Errorf("the same digest: %s", other)
		}
	}
}

func TestATimeThatCannotBeReadTellsContactRequestsApartIfItIsADate(t *testing.T) {
	for _, row := range []struct {
		a, b string
		same bool
	}{
		{"05/06/2026 10:41", "07/06/2026 10:41", false},
		{"2026-11-20", "2026-11-21", false},
		{"vor 3 Minuten", "vor 4 Minuten", true},
		{"2026-11-20T10:41:07+01:00", "2026-11-20T09:41:07Z", true},
	} {
		const form = `{"createdAt":%q,"email":"n@x","message":"Guten Tag"}`
		if same := fingerprint(t, fmt.Sprintf(form, row.a)) == fingerprint(t, fmt.Sprintf(form, row.b)); same != row.same {
			t.Errorf("%s and %s: the same %t", row.a, row.b, same)
		}
	}
}
