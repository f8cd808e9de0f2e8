package sandbox

import "strings"

// Nested differs from [Flat] wherever it can.
//
// Insertions: {"content":[{"insertion":{…}}],"totalElements":n,"totalPages":n,
// "number":n,"size":n,"first":b,"last":b,"empty":b}, pages counted from 0. Contact requests: {"items":[…],
// "totalNumberOfItems":n,"numberOfItemsPerPage":n}, 25 unless asked, 50 at most,
// the person under "contact" with "phoneNumbers":[{"type","number"}], the
// reference repeated. Times have seconds and +0100 without a colon.
func Nested() Rendering {
	return Rendering{
		Name:     "nested",
		PageBase: 0, PageSize: 20, MaxPageSize: 50,
		Window: 25, MaxWindow: 50,
		TimeLayout: TimeNoColon, Zone: winter,
		insertions:     nestedInsertions,
		contactRequest: nestedContactRequest,
		window:         nestedWindow,
		wrap:           func(o object) object { return object{{"insertion", o}} },
	}
}

func nestedInsertions(r Rendering, p page) any { return springPage("content")(r, p) }

func nestedWindow(r Rendering, p page) any {
	return append(object{{"items", p.list(r)}, {"numberOfItemsPerPage", p.size}}, r.totals(member{"totalNumberOfItems", p.total})...)
}

func nestedContactRequest(v *contactRequestVersion, reference string) object {
	c := v.record
	numbers := []any{}
	if c.Phone != "" {
		numbers = append(numbers, object{{"type", phoneType(c.Phone)}, {"number", c.Phone}})
	}
	return object{
		{"id", c.ID},
		{"createdAt", c.CreatedAt},
		{"score", score(c.Score)},
		{"propertyReferenceId", reference},
		{"contact", append(person(c), member{"phoneNumbers", numbers})},
	}.common(v)
}

// phoneType knows the mobile prefixes 075 to 079, however they are spelled.
func phoneType(phone string) string {
	digits := strings.NewReplacer("+41", "", "0041", "", " ", "", ".", "", "-", "", "/", "").Replace(phone)
	if strings.HasPrefix(strings.TrimPrefix(digits, "0"), "7") {
		return "MOBILE"
	}
	return "LANDLINE"
}
