package sandbox

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// referenceForms are the four segments as agencies fill them in: ending empty,
// empty in the middle, with whatever a path cannot bear. The verb takes a number
// that makes the reference unique.
var referenceForms = []string{
	"seefeld#1203#H2#%04d",
	"seefeld#%04d##",
	"altau##H1#%04d",
	"104/001#%04d#A#2",
	"Haus am See#%d b#EG#1",
	"bäckerstrasse#%04d#H1#",
	"###%04d",
	"50%%-aktion#%04d##",
}

var places = []struct{ postalCode, locality string }{
	{"8008", "Zürich"},
	{"8005", "Zürich"},
	{"8400", "Winterthur"},
	{"3011", "Bern"},
	{"1003", "Lausanne"},
	{"1204", "Genève"},
	{"6900", "Lugano"},
	{"7000", "Chur"},
	{"4051", "Basel"},
	{"9000", "St. Gallen"},
}

var streets = []string{"Beispielstrasse", "Musterweg", "Rue de l'Exemple", "Via Prova", "Probeplatz", "Testgasse"}

var titles = map[string][]string{
	"de": {"Helle %v-Zimmerwohnung", "%v-Zimmerwohnung mit Balkon", "Ruhig & zentral: %v Zimmer"},
	"fr": {"Bel appartement de %v pièces", "%v pièces avec balcon"},
	"it": {"Luminoso appartamento di %v locali", "%v locali con vista"},
	"en": {"Bright flat with %v rooms"},
}

// newInsertion invents a property. It never depends on the time.
func newInsertion(r *rand.Rand, number int) Insertion {
	place := pick(r, places...)
	rooms := float64(2+r.IntN(9)) / 2 // 1 to 5
	i := Insertion{
		Reference: fmt.Sprintf(referenceForms[number%len(referenceForms)], number),
		OfferType: pick(r, "RENT", "RENT", "RENT", "RENT", "BUY"),
		RankType:  newRank(r),
		Address:   Address{PostalCode: place.postalCode, Locality: place.locality},
		Characteristics: Characteristics{
			NumberOfRooms: rooms,
			LivingSpace:   int(rooms*22) + r.IntN(20),
			HasBalcony:    chance(r, 60),
			HasElevator:   chance(r, 40),
			Floor:         r.IntN(6),
		},
		Prices:       newPrices(r, rooms),
		Localization: newTexts(r, rooms),
	}
	if i.OfferType == "BUY" {
		i.Prices = Prices{Currency: "CHF", Buy: Buy{Price: 5000 * (40 + int(rooms*50) + r.IntN(60))}}
	}
	if chance(r, 90) {
		i.Address.Street = fmt.Sprintf("%s %d", pick(r, streets...), 1+r.IntN(120))
	}
	if chance(r, 70) {
		i.AvailableFrom = newDate(r)
	}
	return i
}

func newRank(r *rand.Rand) string {
	switch n := r.IntN(100); {
	case n < 8:
		return "TOP"
	case n < 25:
		return "PREMIUM"
	}
	return "STANDARD"
}

// newPrices invents a rent; now and then only the gross one is told.
func newPrices(r *rand.Rand, rooms float64) Prices {
	net := 10 * (70 + int(rooms*40) + r.IntN(60))
	extra := 10 * (8 + r.IntN(20))
	rent := Rent{Net: net, Extra: extra, Gross: net + extra, Interval: "MONTH"}
	if chance(r, 15) {
		rent.Net, rent.Extra = 0, 0
	}
	return Prices{Currency: "CHF", Rent: rent}
}

func newTexts(r *rand.Rand, rooms float64) Localization {
	l := Localization{Primary: pick(r, "de", "de", "de", "fr", "it", "en")}
	text := Localized{Text{Title: newTitle(r, l.Primary, rooms)}}
	switch l.Primary {
	case "de":
		l.DE = text
	case "fr":
		l.FR = text
	case "it":
		l.IT = text
	case "en":
		l.EN = text
	}
	return l
}

func newTitle(r *rand.Rand, language string, rooms float64) string {
	return fmt.Sprintf(pick(r, titles[language]...), rooms)
}

func newDate(r *rand.Rand) string {
	return time.Date(2027, time.Month(1+r.IntN(12)), 1, 0, 0, 0, 0, time.UTC).Format(time.DateOnly)
}

// edit changes one thing of an insertion in the way agencies do, and always
// changes something.
func edit(r *rand.Rand, i *Insertion) {
	switch r.IntN(3) {
	case 0:
		lowerPrice(i, 2+r.IntN(5))
	case 1:
		before := i.RankType
		for i.RankType == before {
			i.RankType = pick(r, "TOP", "PREMIUM", "STANDARD")
		}
	case 2:
		before := i.AvailableFrom
		for i.AvailableFrom == before {
			i.AvailableFrom = newDate(r)
		}
	}
}

func lowerPrice(i *Insertion, percent int) {
	rent := &i.Prices.Rent
	less := max(rent.Gross*percent/100, 5)
	rent.Gross = max(rent.Gross-less, 0)
	rent.Net = max(rent.Net-less, 0)
	if i.OfferType == "BUY" {
		*rent = Rent{}
		i.Prices.Buy.Price -= i.Prices.Buy.Price * percent / 100
	}
}
