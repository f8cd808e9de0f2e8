package listings

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Envelope is what is common to the pages of both operations.
type Envelope struct {
	Total    int       // how many records there are, as the API says; -1 if it does not
	Path     string    // JSON pointer to the list of records; "" is the root
	Received time.Time // our clock, after the last byte
	Sum      Sum       // of the response
	Settled  bool      // it was not read: what it says is known
	// Unreadable counts elements of the list that are no record: what they stand for is unknown, so
	// that a page with one of them does not show all that is there.
	Unreadable int

	Claims

	// Found: Path leads to a list. Otherwise the response says by its total alone that there are no
	// records.
	Found bool
}

func (x *exchange) envelope(l found) Envelope {
	e := Envelope{Total: l.total, Received: x.received, Sum: x.sum, Claims: l.Claims}
	e.Unreadable = len(l.records()) - len(l.elements)
	if e.Found = l.raw != nil; e.Found {
		e.Path = string(l.path())
	}
	return e
}

// InsertionsQuery are the parameters of the list of insertions. Zero values are left out.
type InsertionsQuery struct {
	PageSize int
	Page     int        // 0: left out, as the first request of a walk does
	Other    url.Values // the API's filters, sent as they are; the fields above win
	Place    Place      // of earlier responses; it is no parameter, nor is the next one

	// Settled is asked with the sum of a response. What it knows is not read.
	Settled func(Sum) (SettledPage, bool)
}

func (q InsertionsQuery) values() url.Values {
	v := url.Values{}
	maps.Copy(v, q.Other)
	setNumber(v, "pageSize", q.PageSize)
	setNumber(v, "page", q.Page)
	return v
}

func setNumber(v url.Values, name string, n int) {
	if n > 0 {
		v.Set(name, strconv.Itoa(n))
	}
}

// InsertionsPage is one page of the list of insertions of an agency. A reference may stand on it
// twice.
type InsertionsPage struct {
	Envelope
	Insertions []Insertion

	pastEnd bool // null stands in place of the list
}

// Insertion is one published property.
type Insertion struct {
	Reference string          // propertyReferenceId, never empty; the text of it if it was a number
	Record    json.RawMessage // compact, texts as sent; with defects in canonical form; always proper JSON
	Digest    [32]byte        // of the record, see Digest; without Options.IgnoreInsertions
	Defects   []string        // what is wrong with the record: the Defect constants, sorted
}

// Insertions reads one page of the published insertions of an agency.
func (c *Client) Insertions(ctx context.Context, key Key, agency string, q InsertionsQuery) (*InsertionsPage, error) {
	query := spaced(q.values().Encode())
	x, err := c.ask(ctx, key, Request{Operation: OperationInsertions, AgencyID: agency}, query, q.Place)
	if err != nil {
		return nil, err
	}
	defer x.drop()
	if q.Settled != nil {
		if before, settled := q.Settled(x.sum); settled {
			return before.again(x), nil
		}
	}
	x.page = q.Page
	return c.insertionsPage(x)
}

// SettledPage is what a page said that need not be read again.
type SettledPage struct {
	page       InsertionsPage // without insertions
	References []string
}

// Settle takes of a page what SettledPage keeps.
func (p *InsertionsPage) Settle() SettledPage {
	s := SettledPage{page: *p, References: make([]string, len(p.Insertions))}
	s.page.Insertions = nil
	for n, i := range p.Insertions {
		s.References[n] = i.Reference
	}
	return s
}

// again is the page as it was, in another response of the same sum.
func (s SettledPage) again(x *exchange) *InsertionsPage {
	page := s.page
	page.Settled, page.Received = true, x.received
	page.Insertions = make([]Insertion, len(s.References))
	for n, reference := range s.References {
		page.Insertions[n].Reference = reference
	}
	return &page
}

func (c *Client) insertionsPage(x *exchange) (*InsertionsPage, error) {
	l, err := x.find(insertionNames, nil, c.o.InsertionsPath)
	if err != nil {
		return nil, err
	}
	page := &InsertionsPage{Envelope: x.envelope(l)}
	if page.pastEnd = l.ended; l.ended {
		page.Path, page.Found = x.place.Path, true
	}
	var records []value
	strangers := 0
	for _, element := range l.elements {
		v, reference := referenced(element)
		if element.object().isForeign(x.request.AgencyID) || v.object().isForeign(x.request.AgencyID) {
			strangers++ // one such record is odd, most of them are the response to another question
		}
		records = append(records, v)
		page.Insertions = append(page.Insertions, Insertion{Reference: reference})
	}
	if 2*strangers > len(page.Insertions) {
		return nil, x.drift("insertions of the agency that was asked for", "those of another")
	}
	for n, v := range records {
		i := &page.Insertions[n]
		v, i.Record, i.Defects = compact(v, l.flawed)
		i.Reference = cmp.Or(v.reference(), i.Reference) // of a name that stands twice, the last one counts
		i.Digest = v.digest(c.ignored, nil, 0)
	}
	return page, nil
}

// object is the members of the record.
func (i Insertion) object() object {
	v, _ := decode(i.Record)
	return v.object()
}

// Summary is what people want to know of an insertion at a glance. What the record does not say, or
// says in another type, is absent. Fields, order and types are those of the event.
type Summary struct {
	Title       string
	Street      string
	PostalCode  string
	Locality    string
	OfferType   string
	RankType    string
	Rooms       json.Number
	LivingSpace json.Number
	Price       *Price
	URL         string
}

// Price is the gross rent, else the net rent, else the purchase price, which has no interval.
type Price struct {
	Amount   json.Number
	Currency string
	Interval string
}

// Summary picks out what is known by common names.
func (i Insertion) Summary() Summary {
	o := i.object()
	address, traits := slices.Concat(o.object("address"), o), slices.Concat(o.object("characteristics"), o)
	return Summary{
		Title:       o.title(),
		Street:      address.street(streetNames, houseNumbers),
		PostalCode:  address.scalar("postalcode", "zipcode", "zip", "plz"),
		Locality:    address.words("locality", "city", "town"),
		OfferType:   o.text("offertype"),
		RankType:    cmp.Or(o.text("ranktype"), o.object("listingtype").text("type")),
		Rooms:       traits.number("numberofrooms", "rooms", "roomcount"),
		LivingSpace: traits.number("livingspace", "livingarea", "surfaceliving"),
		Price:       o.price(),
		URL:         o.link(),
	}
}

// street joins the number to the street where they come apart.
func (o object) street(names, numbers []string) string {
	name := o.words(names...)
	if no := o.scalar(numbers...); name != "" && no != "" && !strings.HasSuffix(name, no) {
		return name + " " + no
	}
	return name
}

// title is the one in the record's first language, else any that there is.
func (o object) title() string {
	localized := o.object("localization", "localizations")
	primary := plain(localized.text("primary"))
	for _, language := range []string{primary, "de", "fr", "it", "en"} {
		in := localized.object(language)
		if s := slices.Concat(in.object("text"), in).words("title"); s != "" {
			return s
		}
	}
	return slices.Concat(o, o.object("text")).words("title", "headline")
}

func (o object) price() *Price {
	prices := o.object("prices", "price")
	rent, buy := prices.object("rent"), prices.object("buy", "purchase", "sale")
	all := slices.Concat(prices, o)
	currency := all.text("currency")
	gross := cmp.Or(rent.number("gross"), all.number("grossrent", "rentgross"))
	net := cmp.Or(rent.number("net"), all.number("netrent", "rentnet"))
	if amount := cmp.Or(gross, net); amount != "" {
		interval := slices.Concat(rent, prices, o).text("interval", "rentinterval", "priceinterval")
		return &Price{amount, cmp.Or(rent.text("currency"), currency), interval}
	}
	bought := cmp.Or(buy.number("price", "amount", "gross"), all.number("purchaseprice", "sellingprice", "buyprice"))
	if bought == "" {
		return nil
	}
	return &Price{Amount: bought, Currency: cmp.Or(buy.text("currency"), currency)}
}

// link is an address that a browser may safely be sent to.
func (o object) link() string {
	s := o.text("url", "detailurl", "link", "weburl")
	if strings.HasPrefix(s, "https://") || strings.HasPrefix(s, "http://") {
		return s
	}
	return ""
}
