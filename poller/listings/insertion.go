package listings

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// InsertionsQuery are the parameters of the list of insertions. Zero values are left out.
type InsertionsQuery struct {
	PageSize int
	Page     int        // 0: left out, as the first request of a walk does
	Other    url.Values // the API's filters, sent as they are; the fields above win
	Place    Place      // of earlier responses; it is no parameter, nor is the next one

	// Settled returns the page with a sum that need not be read again, without records; nil: none.
	Settled func(Sum) *InsertionsPage
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
}

// Insertion is one published property.
type Insertion struct {
	Reference string // propertyReferenceId, never empty; the text of it if it was a number
	// compact, texts as sent; with defects in canonical form; always proper JSON
	Record  json.RawMessage
	Digest  [32]byte // of the record, see Digest; without Options.IgnoreInsertions
	Defects []string // what is wrong with the record: the Defect constants, sorted
}

// Insertions reads one page of the published insertions of an agency.
func (c *Client) Insertions(ctx context.Context, key Key, agency string,
	q InsertionsQuery,
) (*InsertionsPage, error) {
	query := spaced(q.values().Encode())
	x, err := c.ask(ctx, key, Request{Operation: OperationInsertions, AgencyID: agency}, query,
		q.Place)
	if err != nil {
		return nil, err
	}
	defer x.drop()
	if q.Settled != nil {
		if before := q.Settled(x.sum); before != nil {
			page := *before
			page.Settled, page.Received = true, x.received
			return &page, nil
		}
	}
	x.page = q.Page
	return c.insertionsPage(x)
}

// Bare returns the page with nothing of its insertions but the references.
func (p InsertionsPage) Bare() *InsertionsPage {
	p.Insertions = slices.Clone(p.Insertions)
	for n, i := range p.Insertions {
		p.Insertions[n] = Insertion{Reference: i.Reference}
	}
	return &p
}

func (c *Client) insertionsPage(x *exchange) (*InsertionsPage, error) {
	e, elements, err := x.find(insertionNames, nil, c.o.InsertionsPath)
	if err != nil {
		return nil, err
	}
	page := &InsertionsPage{Envelope: e, Insertions: make([]Insertion, len(elements))}
	strangers := 0
	for n, element := range elements {
		v, reference := referenced(element)
		if element.object().isForeign(x.request.AgencyID) ||
			v.object().isForeign(x.request.AgencyID) {
			strangers++ // one such record is odd, most of them are the response to another question
		}
		i := &page.Insertions[n]
		v, i.Record, i.Defects = compact(v)
		i.Reference = cmp.Or(v.reference(), reference) // of a repeated name, the last one counts
		i.Digest = sha256.Sum256(v.canonical(c.ignored, nil, 0))
	}
	if 2*strangers > len(elements) {
		return nil, x.drift("insertions of the requested agency", "those of another")
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
	address, traits := slices.Concat(o.object("address"), o),
		slices.Concat(o.object("characteristics"), o)
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
	bought := cmp.Or(buy.number("price", "amount", "gross"),
		all.number("purchaseprice", "sellingprice", "buyprice"))
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
