package message

import (
	"fmt"
	"strings"
	"time"

	"doorbell/events"
)

// Language is one in which leads are written.
type Language string

// The languages. The zero value is English.
const (
	English Language = "en"
	German  Language = "de"
	French  Language = "fr"
	Italian Language = "it"
)

// Languages are all there are.
var Languages = []Language{English, German, French, Italian}

// words speak a language. What they say in English is what the code says.
type words struct{ language Language }

func (w words) tag() Language {
	if w.language == "" {
		return English
	}
	return w.language
}

// t translates. A word without a translation, which a test does not allow, stays English.
func (w words) t(english string) string {
	row, known := table[english]
	if at := map[Language]int{German: 0, French: 1, Italian: 2}; known && w.tag() != English {
		return spaced.Replace(row[at[w.language]])
	}
	return english
}

// spaced keeps what stands before a colon or a semicolon in French on its line.
var spaced = strings.NewReplacer(" :", "\u00a0:", " ;", "\u00a0;")

// Colon is what stands between a label and its value.
func (l Language) Colon() string { return spaced.Replace(locales[words{l}.tag()].colon) }

// Quoted is what somebody wrote, in quotation marks.
func (l Language) Quoted(s string) string { return fmt.Sprintf(locales[words{l}.tag()].quoted, s) }

// count is a number with its noun; nothing is empty.
func (w words) count(n int, one, many string) string {
	switch n {
	case 0:
		return ""
	case 1:
		return strings.Replace(w.t(one), "%s", "1", 1)
	}
	return strings.Replace(w.t(many), "%s", w.grouped(fmt.Sprint(n)), 1)
}

// locale is how a language writes numbers, labels and quotations.
type locale struct{ group, colon, quoted string }

var locales = map[Language]locale{
	English: {"’", ": ", "“%s”"},
	German:  {"’", ": ", "«%s»"},
	French:  {"\u00a0", " : ", "«\u00a0%s\u00a0»"},
	Italian: {"’", ": ", "«%s»"},
}

// when is a time where the readers are, to the minute, with its zone; empty for none.
func (w writer) when(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.In(w.Location).Format("02.01.2006, 15:04 MST")
}

// price is an amount of money: CHF 2’890 a month.
func (w words) price(p *events.Price) string {
	if p == nil || p.Amount == "" {
		return ""
	}
	interval := Line(p.Interval, 32)
	switch interval {
	case "", "ONETIME":
		interval = ""
	case "MONTH":
		interval = w.t("a month")
	default:
		interval = "/ " + strings.ToLower(interval)
	}
	return joined(" ", Line(p.Currency, 8), w.amount(Line(p.Amount.String(), 32)), interval)
}

// amount groups the digits of a number. What is no plain number stays as it is.
func (w words) amount(n string) string {
	whole, fraction, _ := strings.Cut(n, ".")
	if whole == "" || strings.Trim(whole+fraction, "0123456789") != "" {
		return n
	}
	return w.grouped(whole) + n[len(whole):]
}

func (w words) grouped(digits string) string {
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + locales[w.tag()].group + digits[i:]
	}
	return digits
}

// table has German, French and Italian, as they are written in Switzerland, for what the code says
// in English.
var table = map[string][3]string{
	"%s change":  {"%s Änderung", "%s modification", "%s modifica"},
	"%s changes": {"%s Änderungen", "%s modifications", "%s modifiche"},
	"%s new contact request": {
		"%s neue Kontaktanfrage",
		"%s nouvelle demande de contact",
		"%s nuova richiesta di contatto",
	},
	"%s new contact requests": {
		"%s neue Kontaktanfragen",
		"%s nouvelles demandes de contact",
		"%s nuove richieste di contatto",
	},
	"Agency":          {"Agentur", "Agence", "Agenzia"},
	"Call":            {"Anrufen", "Appeler", "Chiama"},
	"Company":         {"Firma", "Société", "Ditta"},
	"Contact request": {"Kontaktanfrage", "Demande de contact", "Richiesta di contatto"},
	"Contact request changed": {
		"Kontaktanfrage geändert",
		"Demande de contact modifiée",
		"Richiesta di contatto modificata",
	},
	"Contact request erased": {
		"Kontaktanfrage gelöscht",
		"Demande de contact effacée",
		"Richiesta di contatto cancellata",
	},
	"Digest":             {"Sammelmeldung", "Récapitulatif", "Riepilogo"},
	"E-mail":             {"E-Mail", "E-mail", "E-mail"},
	"Erased fields":      {"Gelöschte Angaben", "Données effacées", "Dati cancellati"},
	"Event":              {"Ereignis", "Événement", "Evento"},
	"Insertion appeared": {"Neues Inserat", "Nouvelle annonce", "Nuovo annuncio"},
	"Insertion changed":  {"Inserat geändert", "Annonce modifiée", "Annuncio modificato"},
	"Insertion disappeared": {
		"Inserat nicht mehr online",
		"Annonce plus en ligne",
		"Annuncio non più online",
	},
	"Insertion is back": {
		"Inserat wieder online",
		"Annonce de nouveau en ligne",
		"Annuncio di nuovo online",
	},
	"Last seen": {
		"Zuletzt gesehen",
		"Vue pour la dernière fois",
		"Visto l’ultima volta",
	},
	"Lives at": {"Adresse", "Adresse", "Indirizzo"},
	"New contact request": {
		"Neue Kontaktanfrage",
		"Nouvelle demande de contact",
		"Nuova richiesta di contatto",
	},
	"Page":           {"Seite", "Page", "Pagina"},
	"Phone":          {"Telefon", "Téléphone", "Telefono"},
	"Prefers":        {"Bevorzugt", "Préfère", "Preferisce"},
	"Price":          {"Preis", "Prix", "Prezzo"},
	"Property":       {"Objekt", "Objet", "Oggetto"},
	"Reference":      {"Referenz", "Référence", "Riferimento"},
	"Score":          {"Bewertung", "Score", "Punteggio"},
	"Seen":           {"Gesehen", "Vu", "Visto"},
	"Size":           {"Grösse", "Taille", "Dimensioni"},
	"Somebody":       {"Unbekannte Person", "Personne inconnue", "Persona sconosciuta"},
	"Was gone since": {"Nicht online seit", "Hors ligne depuis", "Non online dal"},
	"Where":          {"Ort", "Lieu", "Luogo"},
	"Write a mail":   {"E-Mail schreiben", "Écrire un e-mail", "Scrivi un’e-mail"},
	"Wrote":          {"Geschrieben", "Écrit", "Scritto"},
	"a month":        {"pro Monat", "par mois", "al mese"},
	"about":          {"betrifft:", "concerne :", "riguarda:"},
	"an unknown property": {
		"ein unbekanntes Objekt",
		"un objet inconnu",
		"un oggetto sconosciuto",
	},
	"replayed": {"erneut gesendet", "renvoyé", "inviato di nuovo"},
	"rooms":    {"Zimmer", "pièces", "locali"},
	incomplete: {
		"Hier steht nicht alles; vollständig finden Sie es in Ihrem Portal.",
		"Tout n’est pas affiché ici ; le contenu complet se trouve sur votre portail.",
		"Qui non è riportato tutto; il contenuto completo si trova sul vostro portale.",
	},
	"The data of this person was erased before this was sent.": {
		"Die Daten dieser Person wurden gelöscht, bevor dies gesendet wurde.",
		"Les données de cette personne ont été effacées avant l’envoi.",
		"I dati di questa persona sono stati cancellati prima dell’invio.",
	},
	"The portal has erased the data of this person. Erase it too: in your mail, your CRM and your notes.": {
		"Das Portal hat die Daten dieser Person gelöscht. Bitte löschen Sie sie auch: in E-Mails, CRM und Notizen.",
		"Le portail a effacé les données de cette personne. Effacez-les aussi : dans vos e-mails, votre CRM et vos notes.",
		"Il portale ha cancellato i dati di questa persona. Cancellateli anche voi: da e-mail, CRM e appunti.",
	},
	"This is a test of doorbell. Nobody wrote, and nothing happened.": {
		"Dies ist ein Test von doorbell. Niemand hat geschrieben, und nichts ist geschehen.",
		"Ceci est un test de doorbell. Personne n’a écrit et rien ne s’est passé.",
		"Questo è un test di doorbell. Nessuno ha scritto e nulla è successo.",
	},
	"This was sent again on request. It may be old, and somebody may have answered already.": {
		"Dies wurde auf Wunsch erneut gesendet. Möglicherweise ist es alt und schon beantwortet.",
		"Ceci a été renvoyé sur demande. C’est peut-être ancien et déjà traité.",
		"Questo è stato inviato di nuovo su richiesta. Può essere vecchio e già evaso.",
	},
}
