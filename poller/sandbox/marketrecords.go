package sandbox

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// region is where a language is spoken. Languages of people are weighted de, fr,
// en, it, and one that no form of ours speaks; together they are 60, 22, 11, 5
// and 2 % of all.
type region struct {
	language  string // of the records
	weight    float64
	languages [5]float64
	places    []place
}

type place struct {
	postalCode, locality, canton string
	latitude, longitude          float64
	dear                         float64 // rents compared with the country's
}

var regions = []region{
	{"de", 74.5, [5]float64{79.3, 5.5, 11.6, 1.3, 2.3}, []place{
		{"8008", "Zürich", "ZH", 47.36, 8.56, 1.7},
		{"8005", "Zürich", "ZH", 47.39, 8.52, 1.7},
		{"8400", "Winterthur", "ZH", 47.5, 8.72, 1},
		{"3011", "Bern", "BE", 46.95, 7.45, 1},
		{"4051", "Basel", "BS", 47.56, 7.59, 1},
		{"9000", "St. Gallen", "SG", 47.42, 9.38, 0.9},
		{"7000", "Chur", "GR", 46.85, 9.53, 0.95},
		{"6003", "Luzern", "LU", 47.05, 8.3, 1},
	}},
	{"fr", 21, [5]float64{3, 85, 10, 1, 1}, []place{
		{"1003", "Lausanne", "VD", 46.52, 6.63, 1.1},
		{"1204", "Genève", "GE", 46.2, 6.15, 1.2},
		{"2000", "Neuchâtel", "NE", 46.99, 6.93, 0.85},
		{"2800", "Delémont", "JU", 47.36, 7.34, 0.75},
	}},
	{"it", 4.5, [5]float64{6, 2, 6, 85, 1}, []place{
		{"6900", "Lugano", "TI", 46, 8.95, 0.95}, {"6600", "Locarno", "TI", 46.17, 8.8, 0.9},
	}},
}

func anyRegion(r *rand.Rand) region {
	weights := make([]float64, len(regions))
	for i := range regions {
		weights[i] = regions[i].weight
	}
	return regions[weighted(r, weights)]
}

var (
	flats  = []string{"FLAT", "FLAT", "FLAT", "FLAT", "ATTIC_FLAT", "DUPLEX", "MAISONETTE", "ROOF_FLAT", "LOFT", "FURNISHED_FLAT"}
	small  = []string{"STUDIO", "SINGLE_ROOM", "FLAT", "FURNISHED_FLAT"}
	houses = []string{"SINGLE_HOUSE", "ROW_HOUSE", "VILLA", "CHALET", "RUSTICO", "BIFAMILIAR_HOUSE"}
)

// record invents an insertion.
func (k *Market) record(rent bool) (Insertion, region) {
	r, n := k.random, &k.numbers
	where := anyRegion(r)
	p := pick(r, where.places...)
	whole := 1 + weighted(r, n.Rooms[:])
	if whole == 5 {
		whole += weighted(r, []float64{7, 2, 1})
	}
	rooms := float64(whole) + float64(r.IntN(2))/2
	i := Insertion{
		Reference: fmt.Sprintf(referenceForms[k.number%len(referenceForms)], k.number),
		OfferType: "BUY",
		RankType:  [...]string{"TOP", "PREMIUM", "STANDARD"}[weighted(r, []float64{n.Top, n.Premium, 1 - n.Top - n.Premium})],
		Address:   Address{PostalCode: p.postalCode, Locality: p.locality, Region: p.canton, Country: "CH"},
		Characteristics: Characteristics{
			NumberOfRooms: rooms, LivingSpace: int(rooms*22) + r.IntN(20), Floor: r.IntN(6), YearBuilt: 1900 + r.IntN(127),
			HasBalcony: chance(r, 60), HasElevator: chance(r, 40),
		},
		Prices:       Prices{Currency: "CHF", Buy: Buy{Price: 5000 * int(p.dear*float64(60+int(rooms*40)+r.IntN(60)))}},
		Localization: textsIn(r, where.language, rooms),
		Extra:        map[string]json.RawMessage{},
	}
	if rent {
		i.OfferType, i.Prices = "RENT", k.rent(p, whole)
	}
	i.Address.Geo = k.coordinates(p)
	if !likely(r, n.NoStreet) {
		i.Address.Street = fmt.Sprintf("%s %d", pick(r, streets...), 1+r.IntN(120))
	}
	if chance(r, 70) {
		i.AvailableFrom = newDate(r)
	}
	k.untidy(&i, rooms)
	return i, where
}

// rent is asked for above what those pay who live there.
func (k *Market) rent(p place, rooms int) Prices {
	r, n := k.random, &k.numbers
	if likely(r, n.NoPrice) {
		return Prices{}
	}
	asked := float64(n.NetRent[min(rooms, 6)-1]) * (n.AskedMin + r.Float64()*(n.AskedMax-n.AskedMin)) * p.dear
	net := 10 * int(math.Round(asked*math.Exp(0.12*r.NormFloat64()-0.0072)/10))
	extra := 10 * (8 + r.IntN(20))
	rent := Rent{Net: net, Extra: extra, Gross: net + extra, Interval: "MONTH"}
	if likely(r, n.OnlyGross) {
		rent.Net, rent.Extra = 0, 0
	}
	return Prices{Currency: "CHF", Rent: rent}
}

// coordinates are near the place, or those of another insertion there.
func (k *Market) coordinates(p place) Geo {
	if likely(k.random, k.numbers.SameCoordinates) {
		return Geo{p.latitude, p.longitude}
	}
	spread := func(x float64) float64 { return math.Round((x+k.random.Float64()*0.04-0.02)*1e5) / 1e5 }
	return Geo{spread(p.latitude), spread(p.longitude)}
}

// untidy adds what is sometimes there and sometimes not.
func (k *Market) untidy(i *Insertion, rooms float64) {
	r, n := k.random, &k.numbers
	category := pick(r, flats...)
	switch {
	case rooms < 2:
		category = pick(r, small...)
	case rooms >= 5:
		category = pick(r, houses...)
	}
	set := func(name string, value any) {
		text, err := json.Marshal(value)
		if err == nil { // always
			i.Extra[name] = text
		}
	}
	set("status", "active")
	set("categories", slices.Compact([]string{pick(r, "APARTMENT", category), category}))
	set("lister", map[string]string{})
	if !likely(r, n.EmptyLister) {
		set("lister", map[string]string{"phone": newPhone(r)})
	}
	images := make([]map[string]string, r.IntN(21))
	for j := range images {
		images[j] = map[string]string{"type": "IMAGE", "url": fmt.Sprintf("https://img.example.org/%d/%d.jpg", k.number, j+1)}
	}
	set("attachments", images)
	if !likely(r, n.NoURLs) {
		set("urls", []string{fmt.Sprintf("https://www.example.org/%d", k.number)})
	}
	if i.OfferType == "RENT" && i.Prices != (Prices{}) && likely(r, n.EmptyBuy) {
		set("prices", map[string]any{"currency": i.Prices.Currency, "rent": i.Prices.Rent, "buy": struct{}{}})
	}
}

func textsIn(r *rand.Rand, language string, rooms float64) Localization {
	l := Localization{Primary: language}
	text := Localized{Text{Title: newTitle(r, language, rooms)}}
	switch language {
	case "de":
		l.DE = text
	case "fr":
		l.FR = text
	case "it":
		l.IT = text
	}
	if chance(r, 15) {
		l.EN = Localized{Text{Title: newTitle(r, "en", rooms)}}
	}
	return l
}

// changePrice lowers a price, or raises it if the percentage is negative.
func changePrice(i *Insertion, percent int) {
	delete(i.Extra, "prices") // which would hide it
	change := func(n *int) { *n -= *n * percent / 100 }
	change(&i.Prices.Rent.Net)
	change(&i.Prices.Rent.Gross)
	change(&i.Prices.Buy.Price)
}

func changeRank(r *rand.Rand, i *Insertion) {
	before := i.RankType
	for i.RankType == before {
		i.RankType = pick(r, "TOP", "PREMIUM", "STANDARD")
	}
}

// correspondent is somebody who writes.
type correspondent struct {
	ContactRequest // without anything but the person
	about          *offer
}

const rememberedPeople = 40

// write adds a contact request that was made so long ago.
func (k *Market) write(o *offer, ago time.Duration) {
	r, n := k.random, &k.numbers
	c := k.somebody(o)
	c.Message = k.message(c)
	c.Score, c.Status = k.score(), "NEW"
	c.CreatedAt = k.model.now().Add(-ago)
	if likely(r, n.ViewingWish) {
		c.ViewingTimes = []string{pick(r, slots...)}
	}
	if likely(r, n.Late) {
		c.VisibleFrom = c.CreatedAt.Add(between(r, n.LateMin, n.LateMax))
	}
	k.add(o, c)
	if likely(r, n.DoubleClick) {
		pause := between(r, time.Second, 3*time.Second)
		if ago > 0 {
			c.CreatedAt = c.CreatedAt.Add(pause)
			k.add(o, c)
			return
		}
		k.table.at(k.table.now().Add(pause), func() {
			c.CreatedAt, c.VisibleFrom = time.Time{}, time.Time{}
			k.add(o, c)
		})
	}
}

func (k *Market) add(o *offer, c ContactRequest) {
	if id, err := k.model.AddContactRequest(o.agency.profile.ID, o.reference, c); err == nil { // the insertion was published
		o.requests = append(o.requests, id)
	}
}

// somebody is new, or has written about something else of the agency.
func (k *Market) somebody(o *offer) ContactRequest {
	r, a := k.random, o.agency
	if likely(r, k.numbers.SamePerson) {
		for range 5 {
			if len(a.people) == 0 {
				break
			}
			if p := pick(r, a.people...); p.about != o {
				return p.ContactRequest
			}
		}
	}
	c := k.newPerson([...]string{"de", "fr", "en", "it", "pt"}[weighted(r, o.region.languages[:])])
	a.people = append(a.people, correspondent{c, o})
	if len(a.people) > rememberedPeople {
		a.people = a.people[1:]
	}
	return c
}

func (k *Market) newPerson(language string) ContactRequest {
	r, n := k.random, &k.numbers
	first, last := pick(r, firstNames...), pick(r, surnames...)+Marker
	c := ContactRequest{LastName: last, Language: language}
	if likely(r, n.FirstName) {
		c.FirstName = first
	}
	if titles := salutations[formOf(language)]; likely(r, n.Salutation) {
		c.Salutation = pick(r, titles...)
	}
	if likely(r, n.Email) {
		c.Email = fmt.Sprintf("%s.%s@%s", mailName(first), mailName(last), pick(r, mailHosts...))
		if chance(r, 70) { // names are few; people are not
			c.Email = fmt.Sprintf("%s.%d.%s@%s", mailName(first), r.IntN(10_000), mailName(last), pick(r, mailHosts...))
		}
	}
	if likely(r, n.Phone) {
		c.Phone = newPhone(r)
	}
	return c
}

func newPhone(r *rand.Rand) string {
	return fmt.Sprintf(pick(r, phoneSpellings...), r.IntN(100), r.IntN(100))
}

// message is what somebody writes; it ends with the name, unless it is empty.
func (k *Market) message(c ContactRequest) string {
	r, n := k.random, &k.numbers
	name := strings.TrimSpace(c.FirstName + " " + c.LastName)
	language := formOf(c.Language)
	switch {
	case likely(r, n.Spam):
		return fmt.Sprintf("Earn 5000 CHF a week from home!!! https://spam.example/?ref=%d %s", r.IntN(1000), name)
	case likely(r, n.OddMessage):
		return strings.ReplaceAll(pick(r, oddMessages...), "NAME", name)
	case likely(r, n.Template):
		return fmt.Sprintf(templates[language], name)
	}
	return fmt.Sprintf(pick(r, messages[language]...), name)
}

// formOf is the language in which the portal speaks to somebody.
func formOf(language string) string {
	if messages[language] == nil {
		return "en"
	}
	return language
}

// templates are what the portal writes for those who only press the button.
var templates = map[string]string{
	"de": "Guten Tag\r\n\r\nIch interessiere mich für diese Immobilie. Bitte nehmen Sie mit mir Kontakt auf.\r\n\r\nFreundliche Grüsse\r\n%s",
	"fr": "Bonjour,\r\n\r\nCe bien m'intéresse. Merci de prendre contact avec moi.\r\n\r\nMeilleures salutations\r\n%s",
	"it": "Buongiorno,\r\n\r\nsono interessato a questo immobile. La prego di contattarmi.\r\n\r\nCordiali saluti\r\n%s",
	"en": "Hello,\r\n\r\nI am interested in this property. Please contact me.\r\n\r\nKind regards\r\n%s",
}

// oddMessages are what forwarders stumble over.
var oddMessages = []string{
	"",
	strings.Repeat("Ich schreibe Ihnen gern ausführlich. ", 560) + "NAME", // 20 kB
	"\u202eשלום\u202c, is it free? NAME",
	"null\x00 bell\x07 escape\x1b[31m NAME",
	"<!channel> <!here> <https://example.org|click> NAME",
	`=cmd("calc") NAME`,
	"@everyone *bold* _it_ `code` ~no~ NAME",
	"<script>alert(1)</script><img src=x onerror=alert(1)> NAME",
	"https://example.org/a?b=c&d=%20e NAME",
	"👩‍👩‍👧‍👦🇨🇭🏡 e\u0301 NAME",
	"line\u2028separator\u2029paragraph\ufeff NAME",
	`{"json":"inside","quote":"\""} NAME`,
}
