package listings

import (
	"encoding/json"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Summary is what people want to know of an insertion at a glance. What the record does not say, or says in another type,
// is absent. Fields, order and types are those of the event.
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
	o := parse(jsontext.Value(i.Record))
	address, traits := objects{o.object("address"), o}, objects{o.object("characteristics"), o}
	s := Summary{
		Title:       o.title(),
		Street:      address.street(),
		PostalCode:  address.scalar("postalcode", "zipcode", "zip", "plz"),
		Locality:    address.text("locality", "city", "town"),
		OfferType:   o.text("offertype"),
		RankType:    o.text("ranktype"),
		Rooms:       traits.number("numberofrooms", "rooms", "roomcount"),
		LivingSpace: traits.number("livingspace", "livingarea", "surfaceliving"),
		Price:       o.price(),
		URL:         o.link(),
	}
	if s.RankType == "" {
		s.RankType = o.object("listingtype").text("type")
	}
	return s
}

// street joins the number to the street where they come apart.
func (l objects) street() string {
	name := l.text("street", "streetname", "streetaddress")
	if no := l.scalar("housenumber", "streetnumber"); name != "" && no != "" && !strings.HasSuffix(name, no) {
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
		if s := (objects{in.object("text"), in}).text("title"); s != "" {
			return s
		}
	}
	return objects{o, o.object("text")}.text("title", "headline")
}

func (o object) price() *Price {
	prices := o.object("prices", "price")
	rent, buy := prices.object("rent"), prices.object("buy", "purchase", "sale")
	all := objects{prices, o}
	currency := all.text("currency")
	gross := firstNumber(rent.number("gross"), all.number("grossrent", "rentgross"))
	net := firstNumber(rent.number("net"), all.number("netrent", "rentnet"))
	if amount := firstNumber(gross, net); amount != "" {
		interval := objects{rent, prices, o}.text("interval", "rentinterval", "priceinterval")
		return &Price{amount, firstText(rent.text("currency"), currency), interval}
	}
	bought := firstNumber(buy.number("price", "amount", "gross"), all.number("purchaseprice", "sellingprice", "buyprice"))
	if bought == "" {
		return nil
	}
	return &Price{Amount: bought, Currency: firstText(buy.text("currency"), currency)}
}

func firstNumber(a, b json.Number) json.Number {
	if a != "" {
		return a
	}
	return b
}

func firstText(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// link is an address that a browser may safely be sent to.
func (o object) link() string {
	s := o.text("url", "detailurl", "link", "weburl")
	if strings.HasPrefix(s, "https://") || strings.HasPrefix(s, "http://") {
		return s
	}
	return ""
}
