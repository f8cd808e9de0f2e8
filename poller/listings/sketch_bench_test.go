package listings

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkSketch is what it costs to know an answer again that differs in what nobody reads only: a window of three contact
// requests, and a page of a hundred insertions.
func BenchmarkSketch(b *testing.B) {
	var requests, insertions []string
	for n := range 3 {
		requests = append(requests, fmt.Sprintf(`{"id":"7f0c2b1e-6d1f-4a53-9a57-%012d","createdAt":"2026-11-20T09:41:07Z","score":72.5,"salutation":"Frau",`+
			`"firstName":"Nora","lastName":"Beispiel","email":"nora.beispiel@example.org","phone":"079 000 01 23","language":"de","message":"Guten Tag\r\n%s",`+
			`"viewingTimes":["SAT_MORNING","MON_EVENING"],"status":"NEW","source":{"portal":"example","campaign":null,"device":"mobile"}}`, n, strings.Repeat("Wir sind zu dritt und ruhig. ", 8)))
	}
	for n := range 100 {
		insertions = append(insertions, fmt.Sprintf(`{"propertyReferenceId":"seefeld#%06d#H2#0305","id":40010%05d,"offerType":"RENT","rankType":"TOP","views":%d,`+
			`"address":{"street":"Beispielstrasse 5","postalCode":"8008","locality":"Zürich","geo":{"lat":47.35,"lon":8.55}},`+
			`"characteristics":{"numberOfRooms":3.5,"livingSpace":80,"hasBalcony":true,"hasLift":false,"floor":3},`+
			`"prices":{"currency":"CHF","rent":{"net":1500,"extra":200,"gross":1700,"interval":"MONTH"}},`+
			`"localization":{"primary":"de","de":{"text":{"title":"Helle Wohnung","description":"%s"},"attachments":[{"type":"IMAGE","file":"https://media.example/1.jpg"},{"type":"IMAGE","file":"https://media.example/2.jpg"}]}},`+
			`"availableFrom":"2027-02-01","createdAt":"2026-10-02T08:55:00+0200","updatedAt":"2026-11-01T08:55:00+0100"}`, n, n, n, strings.Repeat("Die Wohnung liegt ruhig und sonnig, nahe am See. ", 20)))
	}
	for name, body := range map[string]string{"requests": strings.Join(requests, ","), "insertions": strings.Join(insertions, ",")} {
		answer := []byte(`{"servedAt":"2026-11-20T09:41:07.123456789Z","results":[` + body + `]}`)
		s := newSketch("/results", []string{"/views"}, IDFields, name == "requests")
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(answer)))
			b.ReportAllocs()
			for b.Loop() {
				if s.content(answer) == (Sum{}) {
					b.Fatal("not sure")
				}
			}
		})
	}
}
