package sandbox

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
)

// errQuery is returned when a parameter cannot be read; the answer is 400.
var errQuery = errors.New("bad query parameter")

// insertionQuery is what Get Insertions was asked for.
type insertionQuery struct {
	size, page          int
	cursor              int // where to begin; zero: where page says
	offerType, rankType string
	search              []string // lower-case words
}

// insertionQuery returns a status other than 200 for what is refused.
func (r Rendering) insertionQuery(v url.Values) (q insertionQuery, status int) {
	q = insertionQuery{
		offerType: v.Get("offerType"),
		rankType:  v.Get("rankType"),
		search:    strings.Fields(strings.ToLower(v.Get("searchQuery"))),
	}
	if q.size, status = r.PageSizes.take(v, "pageSize", r.PageSize, r.MaxPageSize); status != http.StatusOK {
		return q, status
	}
	var err error
	if q.page, err = number(v, "page", r.PageBase, r.PageBase); err == nil && r.Cursor && v.Has("cursor") {
		q.cursor, err = readCursor(v.Get("cursor"))
	}
	if err != nil {
		return q, http.StatusBadRequest
	}
	return q, http.StatusOK
}

// windowQuery is what Get Contact Requests was asked for.
type windowQuery struct {
	size      int
	byScore   bool
	ascending bool
}

// windowQuery returns a status other than 200 for what is refused.
func (r Rendering) windowQuery(v url.Values) (q windowQuery, status int) {
	if q.size, status = r.WindowSizes.take(v, "numberOfItemsPerPage", r.Window, r.MaxWindow); status != http.StatusOK {
		return q, status
	}
	var byErr, orderErr error
	q.byScore, byErr = oneOf(v, "sortBy", "createdAt", "score")
	q.ascending, orderErr = oneOf(v, "sortOrder", "desc", "asc")
	if byErr != nil || orderErr != nil {
		return q, http.StatusBadRequest
	}
	return q, http.StatusOK
}

// number reads an integer parameter; present and empty is no integer.
func number(v url.Values, name string, ifAbsent, least int) (int, error) {
	if !v.Has(name) {
		return ifAbsent, nil
	}
	n, err := strconv.Atoi(v.Get(name))
	if err != nil || n < least {
		return 0, errQuery
	}
	return n, nil
}

// oneOf says whether a parameter has its other value instead of the default.
func oneOf(v url.Values, name, ifAbsent, other string) (bool, error) {
	if !v.Has(name) {
		return false, nil
	}
	switch v.Get(name) {
	case ifAbsent:
		return false, nil
	case other:
		return true, nil
	}
	return false, errQuery
}

// selects says whether an insertion matches all filters. A search for digits
// only is one for a postal code, anything else must occur word by word.
func (q insertionQuery) selects(i *Insertion) bool {
	if q.offerType != "" && q.offerType != i.OfferType || q.rankType != "" && q.rankType != i.RankType {
		return false
	}
	if len(q.search) == 0 {
		return true
	}
	if len(q.search) == 1 && isPostalCode(q.search[0]) {
		return q.search[0] == i.Address.PostalCode
	}
	text := i.searchText()
	for _, word := range q.search {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}

func isPostalCode(word string) bool {
	return len(word) == 4 && strings.Trim(word, "0123456789") == ""
}

func (i *Insertion) searchText() string {
	l := i.Localization
	return strings.ToLower(strings.Join([]string{
		i.Reference, i.Address.Street, i.Address.PostalCode, i.Address.Locality,
		l.DE.Text.Title, l.FR.Text.Title, l.IT.Text.Title, l.EN.Text.Title,
		l.DE.Text.Description, l.FR.Text.Description, l.IT.Text.Description, l.EN.Text.Description,
	}, "\n"))
}
