package sandbox

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// Marker ends the surname of every synthetic person, and with it the mail address and the signature
// of the message. Where it turns up, personal data turned up.
const Marker = "-zq7"

// What is made up is made of these. No person has such a surname, with its marker, or a number
// whose subscriber part starts with 000; the verbs of the spellings take its last four digits.
// References are four segments as agencies fill them in: ending empty, empty in the middle, with
// whatever a path cannot bear; the verb takes a number that makes the reference unique.
var (
	referenceForms = []string{
		"seefeld#1203#H2#%04d", "seefeld#%04d##", "altau##H1#%04d", "104/001#%04d#A#2",
		"Haus am See#%d b#EG#1", "bäckerstrasse#%04d#H1#", "###%04d", "50%%-aktion#%04d##",
	}
	places = []Address{
		{PostalCode: "8008", Locality: "Zürich"},
		{PostalCode: "8400", Locality: "Winterthur"},
		{PostalCode: "3011", Locality: "Bern"},
		{PostalCode: "1204", Locality: "Genève"},
		{PostalCode: "6900", Locality: "Lugano"},
		{PostalCode: "9000", Locality: "St. Gallen"},
	}
	streets = []string{
		"Beispielstrasse", "Musterweg", "Rue de l'Exemple", "Via Prova",
		"Probeplatz", "Testgasse",
	}
	ranks = []string{
		"TOP", "PREMIUM", "PREMIUM", "STANDARD", "STANDARD", "STANDARD",
		"STANDARD", "STANDARD",
	}
	firstNames = []string{
		"Nora", "Elin", "Jonas", "Matteo", "Aline", "Zoé", "Reto", "Chiara",
		"Luca", "Björn", "Françoise", "Amélie",
	}
	surnames = []string{
		"Beispiel", "Muster", "Exemple", "Esempio", "Sample", "Probst",
		"Müsterli", "D'Essai", "Prova", "Testoni",
	}
	mailHosts      = []string{"example.org", "example.com", "example.net"}
	phoneSpellings = []string{
		"+41 79 000 %02d %02d", "079 000 %02d %02d", "0041 79 000 %02d %02d", "079.000.%02d.%02d",
		"+4179000%02d%02d", "044 000 %02d %02d", "076/000 %02d %02d",
	}
	slots = []string{"MON_EVENING", "WED_NOON", "THU_EVENING", "SAT_MORNING"}
)

// languages are what titles, salutations and messages are made of; the verb of a message takes the
// name.
var languages = map[string]struct{ titles, salutations, messages []string }{
	"de": {
		[]string{"Helle %v-Zimmerwohnung", "%v-Zimmerwohnung mit Balkon", "Ruhig & zentral: %v Zimmer"},
		[]string{"Frau", "Herr"},
		[]string{
			"Guten Tag, ist die Wohnung noch frei?\r\nIch könnte am Samstag vorbeikommen.\r\n\r\nFreundliche Grüsse\r\n%s",
			"Grüezi, wir sind zu zweit, Nichtraucher, mit einer Katze 🐈. Gerne würden wir besichtigen. %s",
			"<p>Guten Abend,<br>ist ein <b>Parkplatz</b> dabei? &amp; ab wann?</p>\n%s",
		},
	},
	"fr": {
		[]string{"Bel appartement de %v pièces", "%v pièces avec balcon"},
		[]string{"Madame", "Monsieur"},
		[]string{"Bonjour,\r\nl'appartement est-il encore libre ? Je suis intéressée par une visite.\r\n%s"},
	},
	"it": {
		[]string{"Luminoso appartamento di %v locali"},
		[]string{"Signora", "Signor"},
		[]string{"Buongiorno, l'appartamento è ancora disponibile?\nCordiali saluti\n%s"},
	},
	"en": {
		[]string{"Bright flat with %v rooms"},
		[]string{"Ms", "Mr"},
		[]string{"Hi 👋 could I see it this week? \"Any time\" works, C:\\home or not. %s"},
	},
}

func anyLanguage(r *rand.Rand) string {
	return pick(r, "de", "de", "de", "de", "de", "fr", "fr", "en", "it")
}

func chance(r *rand.Rand, percent int) bool { return r.IntN(100) < percent }

// newInsertion invents a property. It never depends on the time.
func newInsertion(r *rand.Rand, number int) Insertion {
	rooms, language := float64(2+r.IntN(9))/2, anyLanguage(r) // 1 to 5
	net, extra := 10*(70+int(rooms*40)+r.IntN(60)), 10*(8+r.IntN(20))
	i := Insertion{
		Reference: fmt.Sprintf(referenceForms[number%len(referenceForms)], number),
		OfferType: pick(r, "RENT", "RENT", "RENT", "RENT", "BUY"), RankType: pick(r, ranks...),
		Address: pick(r, places...),
		Characteristics: Characteristics{
			NumberOfRooms: rooms, LivingSpace: int(rooms*22) + r.IntN(20),
			HasBalcony: chance(r, 60), HasElevator: chance(r, 40), Floor: r.IntN(6),
		},
		Prices: Prices{
			Currency: "CHF",
			Rent:     Rent{Net: net, Extra: extra, Gross: net + extra, Interval: "MONTH"},
		},
	}
	if i.OfferType == "BUY" {
		i.Prices = Prices{Currency: "CHF"}
		i.Prices.Buy.Price = 400 * net
	} else if chance(r, 15) { // now and then only the gross rent is given
		i.Prices.Rent.Net, i.Prices.Rent.Extra = 0, 0
	}
	i.Localization = Localization{Primary: language}
	text := map[string]*Localized{
		"de": &i.Localization.DE, "fr": &i.Localization.FR,
		"it": &i.Localization.IT, "en": &i.Localization.EN,
	}[language]
	text.Text.Title = fmt.Sprintf(pick(r, languages[language].titles...), rooms)
	if chance(r, 90) {
		i.Address.Street = fmt.Sprintf("%s %d", pick(r, streets...), 1+r.IntN(120))
	}
	if chance(r, 70) {
		i.AvailableFrom = newDate(r)
	}
	return i
}

func newDate(r *rand.Rand) string { return fmt.Sprintf("2027-%02d-01", 1+r.IntN(12)) }

// edit changes one thing of an insertion in the way agencies do, and always changes something.
func edit(r *rand.Rand, i *Insertion) {
	switch r.IntN(3) {
	case 0:
		i.Prices.Rent.Net -= i.Prices.Rent.Net * 2 / 100
		if i.Prices.Buy.Price -= i.Prices.Buy.Price * 2 / 100; i.OfferType != "BUY" {
			i.Prices.Rent.Gross -= max(i.Prices.Rent.Gross*2/100, 5)
		}
	case 1:
		for before := i.RankType; i.RankType == before; {
			i.RankType = pick(r, ranks...)
		}
	case 2:
		for before := i.AvailableFrom; i.AvailableFrom == before; {
			i.AvailableFrom = newDate(r)
		}
	}
}

// newContactRequest invents a person with a question. The shares are roughly those of real ones:
// nearly all have a mail address, most a phone.
func newContactRequest(r *rand.Rand) ContactRequest {
	plain := strings.NewReplacer("é", "e", "ç", "c", "ö", "oe", "ü", "ue", "'", "")
	language, first, last := anyLanguage(r), pick(r, firstNames...), pick(r, surnames...)+Marker
	c := ContactRequest{
		LastName: last, Score: float64(r.IntN(2001)) / 20, // 0 to 100 in steps of 0.05
		Language: language,
		Message:  fmt.Sprintf(pick(r, languages[language].messages...), first+" "+last),
		Status:   "NEW",
	}
	if chance(r, 96) {
		c.FirstName = first
	}
	if chance(r, 85) {
		c.Salutation = pick(r, languages[language].salutations...)
	}
	if chance(r, 99) {
		c.Email = plain.Replace(strings.ToLower(first+"."+last)) + "@" + pick(r, mailHosts...)
	}
	if chance(r, 78) {
		c.Phone = fmt.Sprintf(pick(r, phoneSpellings...), r.IntN(100), r.IntN(100))
	}
	if chance(r, 15) {
		c.ViewingTimes = []string{pick(r, slots...)}
	}
	return c
}

// GeneratorOptions say how much there is and how fast it moves.
type GeneratorOptions struct {
	// decides everything that is invented: with equal options and clocks two models come out equal
	Seed       uint64
	Agencies   []string // that have insertions
	Insertions int      // of each agency at the start
	// contact requests of each insertion at the start, made since it was created, at most sixty
	// days before
	History int
	// ContactRequestsPerMinute and ChangesPerMinute are over all agencies while Run runs. Changes
	// are edits, withdrawals, first and repeated publications, in such shares that the number of
	// insertions stays about the same.
	ContactRequestsPerMinute, ChangesPerMinute float64
}

// Generator fills a model with synthetic people and properties and keeps it moving: evenly, without
// the rhythm of a real market. It may work beside other changes to the same model. It is not safe
// for concurrent use itself.
type Generator struct {
	maker
	options GeneratorOptions
}

// maker puts into a model what is made up.
type maker struct {
	model  *Model
	random *rand.Rand
	number int                  // of the last reference
	lag    func() time.Duration // until a new contact request is visible; nil: none
}

// publish adds an insertion of such an age.
func (g *maker) publish(agencyID string, age time.Duration) string {
	g.number++
	record := newInsertion(g.random, g.number)
	record.CreatedAt = g.model.now().Add(-age)
	_ = g.model.Publish(agencyID, record) // the agency exists
	return record.Reference
}

// write adds a contact request from a new person; it returns the id.
func (g *maker) write(agencyID, reference string, age time.Duration) string {
	record := newContactRequest(g.random)
	now := g.model.now()
	if record.CreatedAt = now.Add(-age); g.lag != nil {
		record.VisibleFrom = now.Add(g.lag())
	}
	id, _ := g.model.AddContactRequest(agencyID, reference, record) // the insertion exists
	return id
}

// somebodyWrites adds a contact request to any insertion on the list; without one it returns no id.
func (g *maker) somebodyWrites(agencyID string) (id string) {
	if listed := g.model.listedReferences(agencyID); len(listed) > 0 {
		id = g.write(agencyID, pick(g.random, listed...), 0)
	}
	return id
}

// stock publishes n insertions that are up to sixty days old, each with a few contact
// requests.
func (g *maker) stock(agencyID string, n, requests int) (references []string) {
	for range n {
		age := g.upTo(60 * day)
		reference := g.publish(agencyID, age)
		for range requests {
			g.write(agencyID, reference, g.upTo(age))
		}
		references = append(references, reference)
	}
	return references
}

func (g *maker) upTo(d time.Duration) time.Duration {
	return time.Duration(g.random.Int64N(int64(d) + 1))
}

// NewGenerator returns a generator that has done nothing yet.
func NewGenerator(m *Model, o GeneratorOptions) *Generator {
	return &Generator{maker{model: m, random: rand.New(rand.NewPCG(o.Seed, 0))}, o}
}

// Seed makes the agencies, their insertions and the old contact requests. Keys are the caller's to
// add.
func (g *Generator) Seed() {
	for _, id := range g.options.Agencies {
		g.model.AddAgency(id)
		g.stock(id, g.options.Insertions, g.options.History)
	}
}

// Run does one thing after the other, at exponentially distributed intervals, until the context
// ends.
func (g *Generator) Run(ctx context.Context) {
	rate := g.options.ContactRequestsPerMinute + g.options.ChangesPerMinute
	for rate > 0 && wait(ctx, time.Duration(g.random.ExpFloat64()/rate*float64(time.Minute))) &&
		ctx.Err() == nil {
		g.Step()
	}
}

// Step does one thing: it adds a contact request or makes a change, in the proportion of the two
// rates; with both zero it adds a contact request.
func (g *Generator) Step() {
	id := pick(g.random, g.options.Agencies...)
	requests, changes := g.options.ContactRequestsPerMinute, g.options.ChangesPerMinute
	if g.random.Float64()*(requests+changes) < changes {
		g.change(id)
		return
	}
	g.somebodyWrites(id)
}

// change keeps the stock between half and twice what it was at the start.
func (g *Generator) change(id string) {
	listed := g.model.listedReferences(id)
	kind := g.random.IntN(10)
	switch {
	case len(listed) == 0 || kind >= 8 && len(listed) < 2*g.options.Insertions:
		old := g.model.records(id, false)
		if len(old) == 0 || g.random.IntN(3) > 0 {
			g.publish(id, 0)
			return
		}
		record := pick(g.random, old...) // something old again, one time in three
		record.CreatedAt = time.Time{}
		_ = g.model.Publish(id, record) // the agency exists
	case kind >= 6 && 2*len(listed) > g.options.Insertions:
		_ = g.model.Withdraw(id, pick(g.random, listed...)) // or another was quicker
	default:
		// likewise
		_ = g.model.Edit(id, pick(g.random, listed...), func(i *Insertion) { edit(g.random, i) })
	}
}
