package sandbox

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// Marker ends the surname of every synthetic person, and with it the mail
// address and the signature of the message. Where it turns up, personal data
// turned up.
const Marker = "-zq7"

var firstNames = []string{"Nora", "Elin", "Jonas", "Matteo", "Aline", "Zoé", "Reto", "Chiara", "Luca", "Björn", "Françoise", "Amélie"}

// No surname here is one that somebody could have, with its marker.
var surnames = []string{"Beispiel", "Muster", "Exemple", "Esempio", "Sample", "Probst", "Müsterli", "D'Essai", "Prova", "Testoni"}

var mailHosts = []string{"example.org", "example.com", "example.net"}

// Nobody can have a number whose subscriber part starts with 000. The verbs take
// its last four digits.
var phoneSpellings = []string{
	"+41 79 000 %02d %02d", "079 000 %02d %02d", "0041 79 000 %02d %02d", "079.000.%02d.%02d",
	"079-000-%02d-%02d", "+4179000%02d%02d", "044 000 %02d %02d", "076/000 %02d %02d",
}

var salutations = map[string][]string{
	"de": {"Frau", "Herr"}, "fr": {"Madame", "Monsieur"}, "it": {"Signora", "Signor"}, "en": {"Ms", "Mr"},
}

var messages = map[string][]string{
	"de": {
		"Guten Tag, ist die Wohnung noch frei?\r\nIch könnte am Samstag vorbeikommen.\r\n\r\nFreundliche Grüsse\r\n%s",
		"Grüezi, wir sind zu zweit, Nichtraucher, mit einer Katze 🐈. Gerne würden wir besichtigen. %s",
		"<p>Guten Abend,<br>ist ein <b>Parkplatz</b> dabei? &amp; ab wann?</p>\n%s",
		"Bitte um Rückruf. %s",
	},
	"fr": {
		"Bonjour,\r\nl'appartement est-il encore libre ? Je suis intéressée par une visite.\r\n%s",
		"Bonjour, à partir de quelle date est-il disponible ? Merci 🙏 %s",
	},
	"it": {
		"Buongiorno, l'appartamento è ancora disponibile?\nCordiali saluti\n%s",
		"Salve! Vorrei visitarlo sabato mattina. %s",
	},
	"en": {
		"Hello, is the flat still available? I am moving to Switzerland in spring.\r\n%s",
		"Hi 👋 could I see it this week? \"Any time\" works, C:\\home or not. %s",
	},
}

var slots = []string{"MON_EVENING", "WED_NOON", "THU_EVENING", "SAT_MORNING"}

// newContactRequest invents a person with a question. The shares are roughly
// those of real ones: nearly all have a mail address, most a phone.
func newContactRequest(r *rand.Rand) ContactRequest {
	language := pick(r, "de", "de", "de", "de", "de", "de", "fr", "fr", "en", "it")
	first, last := pick(r, firstNames...), pick(r, surnames...)+Marker
	c := ContactRequest{
		LastName: last,
		Score:    float64(r.IntN(2001)) / 20, // 0 to 100 in steps of 0.05
		Language: language,
		Message:  fmt.Sprintf(pick(r, messages[language]...), first+" "+last),
		Status:   "NEW",
	}
	if chance(r, 96) {
		c.FirstName = first
	}
	if chance(r, 85) {
		c.Salutation = pick(r, salutations[language]...)
	}
	if chance(r, 99) {
		c.Email = mailName(first) + "." + mailName(last) + "@" + pick(r, mailHosts...)
	}
	if chance(r, 78) {
		c.Phone = fmt.Sprintf(pick(r, phoneSpellings...), r.IntN(100), r.IntN(100))
	}
	if chance(r, 15) {
		c.ViewingTimes = []string{pick(r, slots...)}
	}
	return c
}

func chance(r *rand.Rand, percent int) bool { return r.IntN(100) < percent }

var plain = strings.NewReplacer("é", "e", "ç", "c", "ö", "oe", "ü", "ue", "'", "")

func mailName(s string) string { return plain.Replace(strings.ToLower(s)) }
