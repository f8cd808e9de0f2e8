package sandbox

// Flat is the plainest reading of the description.
//
// Insertions: {"results":[…],"total":n,"page":n,"pageSize":n}, pages counted
// from 1, 20 to a page unless asked, 100 at most. Contact requests: a plain
// array, 20 unless asked, 100 at most, the person's fields beside the others.
// Times are RFC 3339 with milliseconds and +01:00.
func Flat() Rendering {
	return Rendering{
		Name:     "flat",
		PageBase: 1, PageSize: 20, MaxPageSize: 100,
		Window: 20, MaxWindow: 100,
		TimeLayout: TimeMillis, Zone: winter,
		insertions:     flatInsertions,
		contactRequest: flatContactRequest,
		window:         func(r Rendering, p page) any { return p.list(r) },
	}
}

func flatInsertions(r Rendering, p page) any {
	o := object{
		{"results", p.list(r)},
		{"page", p.number},
		{"pageSize", p.size},
	}
	if !r.NoTotals {
		o = append(o, member{"total", p.total})
	}
	return o
}

func flatContactRequest(v *contactRequestVersion, _ string) object {
	c := v.record
	o := object{
		{"id", c.ID},
		{"createdAt", c.CreatedAt},
		{"score", score(c.Score)},
	}
	o = append(o, person(c)...)
	if c.Redacted {
		o = append(o, member{"phone", nil})
	} else {
		o = o.optional("phone", c.Phone)
	}
	return o.common(v)
}

// person is what both renderings show of one in the same way: a redacted person
// is all null, what was never given is left out.
func person(c ContactRequest) object {
	fields := []struct{ name, text string }{
		{"salutation", c.Salutation},
		{"firstName", c.FirstName},
		{"lastName", c.LastName},
		{"email", c.Email},
		{"language", c.Language},
		{"message", c.Message},
	}
	o := object{}
	for _, f := range fields {
		if c.Redacted {
			o = append(o, member{f.name, nil})
		} else {
			o = o.optional(f.name, f.text)
		}
	}
	return o
}

// common appends what is neither the person's nor the rendering's.
func (o object) common(v *contactRequestVersion) object {
	if len(v.record.ViewingTimes) > 0 {
		o = append(o, member{"viewingTimes", texts(v.record.ViewingTimes)})
	}
	o = o.optional("status", v.record.Status)
	for _, m := range v.extra {
		o = o.with(m.name, m.value)
	}
	return o
}
