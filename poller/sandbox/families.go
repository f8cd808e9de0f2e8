package sandbox

// Families returns every envelope that services of this kind are known to use,
// for both operations, each with paging, names and times of its own: [Flat] and
// [Nested] first, then the others. All of them show the whole model, honestly;
// they are to be told apart by their Name only. "odd" is the one that a client
// may have to refuse: it shows one record without an array, and none as null.
func Families() []Rendering {
	all := []Rendering{Flat(), Nested()}
	for _, f := range []func() Rendering{
		search, named, leads, spring, pagedModel, items, itemsMeta, data, dataNested,
		array, cursors, hal, linked, snake, pascal, seeker, odd,
	} {
		all = append(all, f())
	}
	return all
}

// family is a rendering with common habits: pages from 1, times as in [Flat].
func family(name string, base int, insertions, window func(Rendering, page) any) Rendering {
	r := Flat()
	r.Name, r.PageBase, r.insertions, r.window = name, base, insertions, window
	return r
}

// search: {"results":[{"id","listing":{…},"listingType":{…}}],"from","size","total","maxFrom"}.
func search() Rendering {
	r := family("search", 0, searchPage, searchPage)
	r.wrap = func(o object) object {
		return object{{"id", o.get("id")}, {"listing", o}, {"listingType", object{{"type", o.get("rankType")}}}}
	}
	return r
}

// named: {"insertions":[…],"totalCount",…} and {"contactRequests":[…],"totalCount"}.
func named() Rendering {
	r := family("named", 1, pageUnder("insertions"), pageUnder("contactRequests"))
	r.TimeLayout = TimeNoColon
	return r
}

// leads: {"listings":[{"listing":{…}}],…} and {"leads":[…],"count"}, times without a zone.
func leads() Rendering {
	r := family("leads", 1, pageUnder("listings"), func(r Rendering, p page) any {
		return append(object{{"leads", p.list(r)}}, r.totals(member{"count", p.total})...)
	})
	r.WrapInsertion, r.Person = "listing", "sender"
	r.TimeLayout, r.Zone = TimeZoneless, Zurich
	return r
}

// spring is a Spring Page for both, from 0.
func spring() Rendering {
	return family("spring", 0, springPage("content"), springPage("content"))
}

// pagedModel is a Spring PagedModel for both, from 0; times in milliseconds.
func pagedModel() Rendering {
	r := family("paged-model", 0, pagedModelPage, pagedModelPage)
	r.TimeLayout = EpochMilliseconds
	return r
}

// items: {"items":[…],"resultCount","start","page","pageCount","itemsPerPage","hasNextPage","hasPreviousPage"}.
func items() Rendering { return family("items", 1, itemsPage, itemsPage) }

// itemsMeta: {"items":[…],"pageInfo":{…}}; ids are numbers.
func itemsMeta() Rendering {
	r := family("items-meta", 1, metaPage("items", "pageInfo"), metaPage("items", "meta"))
	r.IDs = IDNumber
	return r
}

// data: {"data":[…],"pagination":{…}} and {"data":[…],"meta":{…}}, times in seconds.
func data() Rendering {
	r := family("data", 1, metaPage("data", "pagination"), metaPage("data", "meta"))
	r.TimeLayout = EpochSeconds
	return r
}

// dataNested: {"success":true,"status":{…},"data":{"insertions":[…],"total"}}.
func dataNested() Rendering {
	return family("data-nested", 1, dataPage("insertions"), dataPage("contactRequests"))
}

// array: a plain array for both, totals in the header.
func array() Rendering {
	plain := func(r Rendering, p page) any { return p.list(r) }
	r := family("array", 1, plain, plain)
	r.TotalsInHeader = true
	return r
}

// cursors: {"data":[…],"nextCursor","hasMore"}, where page works too.
func cursors() Rendering {
	r := family("cursor", 1, cursorPage, func(r Rendering, p page) any {
		return object{{"data", p.list(r)}, {"pagination", object{{"nextCursor", nil}, {"hasMore", p.more()}}}}
	})
	r.Cursor, r.Person = true, "contact"
	return r
}

// hal: {"_embedded":{"insertions":[…]},"_links":{…},"page":{…}}.
func hal() Rendering { return family("hal", 0, halPage, halPage) }

// linked: {"count","next","previous","results":[…]}.
func linked() Rendering { return family("linked", 1, linkedPage, linkedPage) }

// snake: {"results":[…],"total_count","page","page_size"}, everything in snake_case.
func snake() Rendering {
	r := family("snake", 1, pageUnder("results"), pageUnder("contactRequests"))
	r.Names = SnakeCase
	return r
}

// pascal: {"Objects":[…],"Paging":{…}} and {"List":[…],"TotalCount"}.
func pascal() Rendering {
	r := family("pascal", 1, metaPage("objects", "paging"), func(r Rendering, p page) any {
		return append(object{{"list", p.list(r)}}, r.totals(member{"totalCount", p.total})...)
	})
	r.Names = PascalCase
	return r
}

// seeker: {"realEstates":[…],…} and {"metadata","links","items":[{"contactRequest":{…}}]}.
func seeker() Rendering {
	r := family("seeker", 1, pageUnder("realEstates"), func(r Rendering, p page) any {
		meta := append(object{{"limit", p.size}}, r.totals(member{"total", p.total})...)
		return object{{"metadata", meta}, {"links", object{{"self", p.self.String()}}}, {"items", p.list(r)}}
	})
	r.WrapContactRequest = "contactRequest"
	return r
}

// odd: {"properties":…} and {"requests":…}, where one record stands without an
// array and none is null.
func odd() Rendering {
	r := family("odd", 1, pageUnder("properties"), pageUnder("requests"))
	r.Lonely, r.None = true, NullList
	return r
}

func searchPage(r Rendering, p page) any {
	o := object{{"results", p.list(r)}, {"from", p.offset}, {"size", p.size}}
	return append(o, r.totals(member{"total", p.total}, member{"maxFrom", 10_000})...)
}

func pageUnder(name string) func(Rendering, page) any {
	return func(r Rendering, p page) any {
		o := object{{name, p.list(r)}, {"page", p.number}, {"pageSize", p.size}}
		return append(o, r.totals(member{"totalCount", p.total}, member{"totalPages", p.pages()})...)
	}
}

func springPage(name string) func(Rendering, page) any {
	return func(r Rendering, p page) any {
		o := object{
			{name, p.list(r)},
			{"number", p.number},
			{"size", p.size},
			{"first", p.number == r.PageBase},
			{"last", p.number-r.PageBase+1 >= p.pages()},
			{"empty", len(p.records) == 0},
		}
		return append(o, r.totals(member{"totalElements", p.total}, member{"totalPages", p.pages()})...)
	}
}

func pagedModelPage(r Rendering, p page) any {
	inner := object{{"size", p.size}, {"number", p.number}}
	inner = append(inner, r.totals(member{"totalElements", p.total}, member{"totalPages", p.pages()})...)
	return object{{"content", p.list(r)}, {"page", inner}}
}

func itemsPage(r Rendering, p page) any {
	o := object{
		{"items", p.list(r)},
		{"start", p.offset},
		{"page", p.number},
		{"itemsPerPage", p.size},
		{"hasNextPage", p.more()},
		{"hasPreviousPage", p.number > r.PageBase},
	}
	return append(o, r.totals(member{"resultCount", p.total}, member{"pageCount", p.pages()})...)
}

func metaPage(list, meta string) func(Rendering, page) any {
	return func(r Rendering, p page) any {
		inner := object{{"page", p.number}, {"pageSize", p.size}, {"hasNextPage", p.more()}}
		inner = append(inner, r.totals(member{"totalItems", p.total}, member{"totalPages", p.pages()})...)
		return object{{list, p.list(r)}, {meta, inner}}
	}
}

func dataPage(list string) func(Rendering, page) any {
	return func(r Rendering, p page) any {
		inner := object{{list, p.list(r)}, {"page", p.number}, {"size", p.size}}
		inner = append(inner, r.totals(member{"total", p.total})...)
		return object{{"success", true}, {"status", object{{"code", 200}, {"message", "OK"}}}, {"data", inner}}
	}
}

func cursorPage(r Rendering, p page) any {
	return object{{"data", p.list(r)}, {"nextCursor", p.cursor()}, {"hasMore", p.more()}}
}

func halPage(r Rendering, p page) any {
	links := object{{"self", object{{"href", p.self.String()}}}}
	if next := p.next(); next != nil && p.kind == insertionsKind {
		links = append(links, member{"next", object{{"href", next}}})
	}
	inner := object{{"size", p.size}, {"number", p.number}}
	inner = append(inner, r.totals(member{"totalElements", p.total}, member{"totalPages", p.pages()})...)
	return object{{"_embedded", object{{p.kind, p.list(r)}}}, {"_links", links}, {"page", inner}}
}

func linkedPage(r Rendering, p page) any {
	o := object{{"results", p.list(r)}, {"next", p.next()}, {"previous", p.previous(r)}}
	if p.kind == contactRequestsKind {
		o = object{{"results", p.list(r)}, {"next", nil}, {"previous", nil}}
	}
	return append(o, r.totals(member{"count", p.total})...)
}
