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
		TimeLayout: "2006-01-02T15:04:05-0700", Zone: winter,
		insertions:     nestedInsertions,
		contactRequest: nestedContactRequest,
		window:         nestedWindow,
	}
}

func nestedInsertions(r Rendering, p insertionPage) any {
	content := make([]any, len(p.records))
	for i, record := range p.records {
		content[i] = object{{"insertion", record}}
	}
	o := object{
		{"content", content},
		{"number", p.number},
		{"size", p.size},
		{"first", p.number == r.PageBase},
		{"last", p.number-r.PageBase+1 >= p.pages()},
		{"empty", len(content) == 0},
	}
	if r.NoTotals {
		return o
	}
	return append(o, member{"totalElements", p.total}, member{"totalPages", p.pages()})
}

func nestedWindow(r Rendering, w contactRequestWindow) any {
	o := object{{"items", list(w.records)}, {"numberOfItemsPerPage", w.size}}
	if r.NoTotals {
		return o
	}
	return append(o, member{"totalNumberOfItems", w.total})
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
