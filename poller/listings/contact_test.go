package listings

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestFieldsAreReadInTheLanguagesOfTheTrade(t *testing.T) {
	for record, want := range map[string]string{
		// German
		`{"anrede":"Frau","vorname":"Nora","nachname":"Beispiel","telefon":"079 000 01 23","nachricht":"Hoi","sprache":"de"}`:                                                                                 `{"Salutation":"Frau","FirstName":"Nora","LastName":"Beispiel","Phone":"+41790000123","PhoneRaw":"079 000 01 23","Message":"Hoi","Language":"de"}`,
		`{"Vorname":"Nora","Name":"Beispiel","E-Mail-Adresse":"n@example.org","Mobil-Nummer":"079 000 01 23","Mitteilung":"Hoi"}`:                                                                             `{"FirstName":"Nora","LastName":"Beispiel","Email":"n@example.org","Phone":"+41790000123","PhoneRaw":"079 000 01 23","Message":"Hoi"}`,
		`{"interessent":{"anrede":"Herr","vorname":"Ben","nachname":"Drei","firma":"Drei AG","straße":"Weg","hausnummer":3,"plz":8008,"ort":"Zürich","land":"CH","tel":"0041 44 000 01 23","anfrage":"Hoi"}}`: `{"Salutation":"Herr","FirstName":"Ben","LastName":"Drei","Company":"Drei AG","Address":{"Street":"Weg 3","PostalCode":"8008","Locality":"Zürich","Country":"CH"},"Phone":"+41440000123","PhoneRaw":"0041 44 000 01 23","Message":"Hoi"}`,
		`{"kontaktanfrage":{"absender":{"VOR_NAME":"Ben","FAMILIEN-NAME":"Drei","Geschlecht":"M","natel":"079 000 01 23"},"freitext":"Hoi"},"quelle":"p"}`:                                                    `{"FirstName":"Ben","LastName":"Drei","Gender":"M","Phone":"+41790000123","PhoneRaw":"079 000 01 23","Message":"Hoi","Portal":"p"}`,
		`{"kontaktdaten":{"vollständigerName":"Ben Drei","Rückrufnummer":"079 000 01 23","adresse":{"strasse":"Weg","hausnr":"3a","postleitzahl":"8008","wohnort":"Zürich"}}}`:                                `{"FullName":"Ben Drei","Phone":"+41790000123","PhoneRaw":"079 000 01 23","Address":{"Street":"Weg 3a","PostalCode":"8008","Locality":"Zürich"}}`,
		`{"rueckruf_nummer":"079 000 01 23","bevorzugter_kontakt":"Telefon","bemerkungen":"Hoi"}`:                                                                                                             `{"Phone":"+41790000123","PhoneRaw":"079 000 01 23","PreferredContact":"Telefon","Message":"Hoi"}`,
		// French
		`{"civilite":"Mme","prenom":"Nora","nom":"Exemple","telephone":"+33 (0)1 23 45 67 89","message":"Salut","langue":"fr"}`:                                                                             `{"Salutation":"Mme","FirstName":"Nora","LastName":"Exemple","Phone":"+33123456789","PhoneRaw":"+33 (0)1 23 45 67 89","Message":"Salut","Language":"fr"}`,
		`{"Civilité":"M.","Prénom":"Ben","Nom de famille":"Trois","Téléphone portable":"079 000 01 23","Adresse e-mail":"b@example.org"}`:                                                                   `{"Salutation":"M.","FirstName":"Ben","LastName":"Trois","Phone":"+41790000123","PhoneRaw":"079 000 01 23","Email":"b@example.org"}`,
		"{\"pre\u0301nom\":\"Ben\",\"nom\":\"Trois\",\"te\u0301le\u0301phone\":\"079 000 01 23\"}":                                                                                                          `{"FirstName":"Ben","LastName":"Trois","Phone":"+41790000123","PhoneRaw":"079 000 01 23"}`, // the accents apart
		`{"demandeur":{"nom":"Ben Trois","courriel":"b@example.org","adresse":{"rue":"Chemin","numéro":3,"code_postal":"1003","ville":"Lausanne","pays":"CH"},"société":"Trois SA"},"commentaire":"Salut"}`: `{"FullName":"Ben Trois","Email":"b@example.org","Address":{"Street":"Chemin 3","PostalCode":"1003","Locality":"Lausanne","Country":"CH"},"Company":"Trois SA","Message":"Salut"}`,
		`{"coordonnées":{"PRENOM":"Ben","NOM":"Trois","NPA":1003,"LOCALITÉ":"Lausanne","RUE":"Chemin 3"}}`:                                                                                                  `{"FirstName":"Ben","LastName":"Trois","Address":{"Street":"Chemin 3","PostalCode":"1003","Locality":"Lausanne"}}`,
		// Italian
		`{"nome":"Nora","cognome":"Esempio","telefono":"+39 (0)6 1234567","messaggio":"Ciao","lingua":"it"}`:                                                                                         `{"FirstName":"Nora","LastName":"Esempio","Phone":"+39061234567","PhoneRaw":"+39 (0)6 1234567","Message":"Ciao","Language":"it"}`,
		`{"mittente":{"nome":"Ben Tre","cellulare":"079 000 01 23","posta_elettronica":"b@example.org","indirizzo":{"via":"Via Tre","numero_civico":3,"CAP":"6900","città":"Lugano","paese":"CH"}}}`: `{"FullName":"Ben Tre","Phone":"+41790000123","PhoneRaw":"079 000 01 23","Email":"b@example.org","Address":{"Street":"Via Tre 3","PostalCode":"6900","Locality":"Lugano","Country":"CH"}}`,
		`{"contatto":{"Cognome":"Tre","Nome":"Ben","società":"Tre SA","indirizzo":"Via Tre 3, 6900 Lugano"},"richiesta":"Ciao"}`:                                                                     `{"FirstName":"Ben","LastName":"Tre","Company":"Tre SA","Address":{"Street":"Via Tre 3","PostalCode":"6900","Locality":"Lugano"},"Message":"Ciao"}`,
	} {
		sameJSON(t, ContactRequest{Record: json.RawMessage(record)}.Contact(), json.RawMessage(want))
	}
}

func TestNamesAreJoinedOfTheirParts(t *testing.T) {
	for record, want := range map[string]string{
		`{"firstName":"Nora","middleName":"Maria","lastName":"Beispiel"}`:                                         `{"FirstName":"Nora Maria","LastName":"Beispiel"}`,
		`{"from_name":"Ben Drei","from_email":"b@example.org"}`:                                                   `{"FullName":"Ben Drei","Email":"b@example.org"}`,
		`{"lead_name":"Ben Drei","lead_email":"b@example.org","lead_phone":"079 000 01 23"}`:                      `{"FullName":"Ben Drei","Phone":"+41790000123","PhoneRaw":"079 000 01 23","Email":"b@example.org"}`,
		`{"fname":"Ben","lname":"Drei","email1":"b@example.org","tel_p":"079 000 01 23","Anmerkung":"Hoi"}`:       `{"FirstName":"Ben","LastName":"Drei","Phone":"+41790000123","PhoneRaw":"079 000 01 23","Email":"b@example.org","Message":"Hoi"}`,
		`{"acheteur":{"prenom":"Ben","nom":"Trois","tel_prof":"079 000 01 23"},"remarques":"Salut"}`:              `{"FirstName":"Ben","LastName":"Trois","Phone":"+41790000123","PhoneRaw":"079 000 01 23","Message":"Salut"}`,
		`{"acquirente":{"nome":"Ben","cognome":"Tre","tel.":"+41 79 000 01 23"},"osservazioni":"Ciao"}`:           `{"FirstName":"Ben","LastName":"Tre","Phone":"+41790000123","PhoneRaw":"+41 79 000 01 23","Message":"Ciao"}`,
		`{"anfragesteller":{"vorname":"Ben","nachname":"Drei","handynr":"079 000 01 23"},"ihre_nachricht":"Hoi"}`: `{"FirstName":"Ben","LastName":"Drei","Phone":"+41790000123","PhoneRaw":"079 000 01 23","Message":"Hoi"}`,
		`{"lastName":"Drei","from":{"emailAddress":{"name":"Ben Drei","address":"b@example.org"}}}`:               `{"LastName":"Drei","Email":"b@example.org"}`,
		"{\"lastName\":\"Drei\",\"email\":\"\u200bb@example.org\"}":                                               `{"LastName":"Drei","Email":"b@example.org"}`,
		`{"lastName":"Drei","email":"'b@example.org'"}`:                                                           `{"LastName":"Drei","Email":"b@example.org"}`,
		`{"lastName":"Drei","email":"b@example.org|Ben"}`:                                                         `{"LastName":"Drei","Email":"b@example.org"}`,
		`{"firstName":"Ben","lastNamePrefix":"van der","lastName":"Drei"}`:                                        `{"FirstName":"Ben","LastName":"van der Drei"}`,
		`{"firstName":["Nora","Maria"],"lastName":["Beispiel","Drei"]}`:                                           `{"FirstName":"Nora Maria","LastName":"Beispiel Drei"}`,
		`{"contact":{"name":{"given":"Nora","middle":"M.","family":"Beispiel"}}}`:                                 `{"FirstName":"Nora M.","LastName":"Beispiel"}`,
		`{"name":{"full":"Nora Beispiel"}}`:                                                                       `{"FullName":"Nora Beispiel"}`,
		`{"name":"Nora Beispiel"}`:                                                                                `{"FullName":"Nora Beispiel"}`,
		`{"firstName":"Nora","name":"Beispiel"}`:                                                                  `{"FirstName":"Nora","LastName":"Beispiel"}`,
		`{"firstName":"Nora","name":"Nora Beispiel"}`:                                                             `{"FirstName":"Nora","LastName":"Beispiel","FullName":"Nora Beispiel"}`,
		`{"firstName":"Nora","fullName":"Beispiel Nora"}`:                                                         `{"FirstName":"Nora","LastName":"Beispiel","FullName":"Beispiel Nora"}`,
		`{"lastName":"von Beispiel","displayName":"Nora von Beispiel"}`:                                           `{"FirstName":"Nora","LastName":"von Beispiel","FullName":"Nora von Beispiel"}`,
		`{"firstName":"Nora","lastName":"Beispiel","name":"Nora B."}`:                                             `{"FirstName":"Nora","LastName":"Beispiel","FullName":"Nora B."}`,
		`{"contact":{"person":{"firstName":"Nora"},"lastName":"Beispiel"}}`:                                       `{"FirstName":"Nora","LastName":"Beispiel"}`,
		`{"lead":{"customer_name":"x"},"applicant":{"details":1,"surname":"Drei"}}`:                               `{"LastName":"Drei"}`,
		`{"firstName":"Nora","name":"Nora"}`:                                                                      `{"FirstName":"Nora","FullName":"Nora"}`,
		`{"firstName":"\u00a0","lastName":"&nbsp;","fullName":" Nora\u00a0Beispiel"}`:                             "{\"FullName\":\"Nora\u00a0Beispiel\"}",
	} {
		sameJSON(t, ContactRequest{Record: json.RawMessage(record)}.Contact(), json.RawMessage(want))
	}
}

func TestEMailAddressesAreReadInTheirForms(t *testing.T) {
	for email, want := range map[string]string{
		`"ben@example.org"`:                                        `{"Email":"ben@example.org"}`,
		`" Ben@Example.org "`:                                      `{"Email":"Ben@Example.org"}`,
		`"Ben Drei <ben@example.org>"`:                             `{"Email":"ben@example.org","FullName":"Ben Drei"}`,
		`"\"Drei, Ben\" <ben@example.org>"`:                        `{"Email":"ben@example.org","FullName":"Drei, Ben"}`,
		`"Drei, Ben <ben@example.org>"`:                            `{"Email":"ben@example.org","FullName":"Drei, Ben"}`,
		`"Jürg Müller <juerg@example.org>"`:                        `{"Email":"juerg@example.org","FullName":"Jürg Müller"}`,
		`"=?utf-8?q?J=C3=BCrg?= <juerg@example.org>"`:              `{"Email":"juerg@example.org","FullName":"Jürg"}`,
		`"<ben@example.org>"`:                                      `{"Email":"ben@example.org"}`,
		`"ben@example.org (Ben Drei)"`:                             `{"Email":"ben@example.org","FullName":"Ben Drei"}`,
		`"ben@example.org <ben@example.org>"`:                      `{"Email":"ben@example.org"}`,
		`"Ben &lt;ben@example.org&gt;"`:                            `{"Email":"ben@example.org","FullName":"Ben"}`,
		`"mailto:ben@example.org"`:                                 `{"Email":"ben@example.org"}`,
		`"MAILTO:ben@example.org?subject=Wohnung&body=x@y"`:        `{"Email":"ben@example.org"}`,
		`"mailto:ben%2Bhome%40example.org"`:                        `{"Email":"ben+home@example.org"}`,
		`"mailto:ben+home@example.org"`:                            `{"Email":"ben+home@example.org"}`,
		`"mailto:Ben%20Drei%20%3Cben@example.org%3E"`:              `{"Email":"ben@example.org","FullName":"Ben Drei"}`,
		`"<mailto:ben@example.org|ben@example.org>"`:               `{"Email":"ben@example.org"}`,
		`"Ben Drei <mailto:ben@example.org?subject=x>"`:            `{"Email":"ben@example.org","FullName":"Ben Drei"}`,
		`"ben@example.org<mailto:ben@example.org>"`:                `{"Email":"ben@example.org"}`,
		`"E-Mail: ben@example.org\u00a0"`:                          `{"Email":"ben@example.org"}`,
		`"ben＠example.org"`:                                        `{"Email":"ben@example.org"}`,
		`"mailto:50%@example.org"`:                                 `{"Email":"50%@example.org"}`,
		`"ben@bücher.example"`:                                     `{"Email":"ben@xn--bcher-kva.example"}`,
		"\"ben@bu\u0308cher.example\"":                             `{"Email":"ben@xn--bcher-kva.example"}`,
		`"Ben <ben@Zürich.example>"`:                               `{"Email":"ben@xn--zrich-kva.example","FullName":"Ben"}`,
		`"mailto:ben@b%C3%BCcher.example"`:                         `{"Email":"ben@xn--bcher-kva.example"}`,
		`"ben@例え。テスト"`:                                             `{"Email":"ben@xn--r8jz45g.xn--zckzah"}`,
		`"ben@xn--bcher-kva.example"`:                              `{"Email":"ben@xn--bcher-kva.example"}`,
		`"ben@example.org, nora@example.org"`:                      `{"Email":"ben@example.org"}`,
		`"none; ben@example.org"`:                                  `{"Email":"ben@example.org"}`,
		`"ben@ nora@example.org"`:                                  `{"Email":"nora@example.org"}`,
		`"ben@a..b;nora@example.org"`:                              `{"Email":"nora@example.org"}`,
		`["", null, "none", "ben@example.org"]`:                    `{"Email":"ben@example.org"}`,
		`[{"type":"x","address":"-"},{"email":"ben@example.org"}]`: `{"Email":"ben@example.org"}`,
		`{"address":"Ben <ben@example.org>"}`:                      `{"Email":"ben@example.org","FullName":"Ben"}`,
		`"ben@example.org."`:                                       `{"Email":"ben@example.org"}`,
		`"ben.example.org"`:                                        `{"Email":"ben.example.org"}`, // none that can be read: as sent
		`" none "`:                                                 `{"Email":"none"}`,
		`""`:                                                       `{}`,
		`7`:                                                        `{}`,
	} {
		sameJSON(t, ContactRequest{Record: json.RawMessage(`{"email":` + email + `}`)}.Contact(), json.RawMessage(want))
	}
	for record, want := range map[string]string{
		`{"email":"-","mail":"ben@example.org"}`:                         `{"Email":"ben@example.org"}`,
		`{"from":"Ben Drei <ben@example.org>","message":"x"}`:            `{"Email":"ben@example.org","FullName":"Ben Drei","Message":"x"}`,
		`{"sender":"ben@example.org"}`:                                   `{"Email":"ben@example.org"}`,
		`{"sender":"Ben Drei"}`:                                          `{}`,
		`{"replyTo":{"email":"ben@example.org"}}`:                        `{"Email":"ben@example.org"}`,
		`{"email":"Benny <ben@example.org>","firstName":"Ben"}`:          `{"Email":"ben@example.org","FirstName":"Ben"}`,
		`{"email":"Benny <ben@example.org>","contact":{"company":"AG"}}`: `{"Email":"ben@example.org","FullName":"Benny","Company":"AG"}`,
	} {
		sameJSON(t, ContactRequest{Record: json.RawMessage(record)}.Contact(), json.RawMessage(want))
	}
}

func TestTheZeroInParenthesesBelongsToSomeNumbers(t *testing.T) {
	for raw, want := range map[string]string{
		"+39 (0)6 1234567": "+39061234567", "0039 (0)6 1234567": "+39061234567", "+39(0)2.1234567": "+39021234567", "+39 (0) 91-123456": "+39091123456",
		"+39 [0]6 1234567": "+39061234567", "+39 06 1234567": "+39061234567", "+39 347 1234567": "+393471234567", "00 39 (0)6 1234567": "+39061234567",
		"+378 (0)549 123456": "+3780549123456", "00378 (0) 549 123456": "+3780549123456", "+378 0549 123456": "+3780549123456",
		"+41 (0)79 000 01 23": "+41790000123", "0041(0)79 000 01 23": "+41790000123", "+41 [0] 79 000 01 23": "+41790000123", "+41 ( 0 ) 79 000 01 23": "+41790000123",
		"+49 (0)30 1234567": "+49301234567", "+33(0)1.23.45.67.89": "+33123456789", "+423 (0)123 45 67": "+4231234567", "+37 (0)8 1234567": "+3781234567",
		"(0)44 000 01 23": "+41440000123", "+49 030 1234567": "+49301234567", "+33 01 23 45 67 89": "+33123456789",
	} {
		if got := E164(raw); got != want {
			t.Errorf("%q: %q, want %q", raw, got, want)
		}
	}
}

func TestPhoneNumbersAreReadAsTheyAreWritten(t *testing.T) {
	for raw, want := range map[string]string{
		"+41 44 000 01 23 ext. 5": "+41440000123", "+41 44 000 01 23 x55": "+41440000123", "044 000 01 23 Durchwahl 12": "+41440000123",
		"tel:+41-44-000-01-23;ext=12": "+41440000123", "044 000 01 23, int. 12": "+41440000123", "+33 1 23 45 67 89 poste 12": "+33123456789", "044 000 01 23 #12": "+41440000123",
		"079.000.01.23": "+41790000123", "079/0000123": "+41790000123", "079 / 000 01 23": "+41790000123", "079 000’01’23": "+41790000123", "079_000_01_23": "+41790000123",
		"079\u00a0000\u00a001\u00a023": "+41790000123", "079\u2007000\u200901\u202f23": "+41790000123", "\u202a+41 79 000 01 23\u202c": "+41790000123", "079\u00ad000\u200b0123": "+41790000123",
		"０７９ ０００ ０１ ２３": "+41790000123", "＋４１　７９　０００　０１　２３": "+41790000123", "＋41（0）79 000 01 23": "+41790000123",
		"079–000–01–23": "+41790000123", "079\u2212000\u22120123": "+41790000123", "Tel. 079 000 01 23": "+41790000123", "Natel: 079 000 01 23": "+41790000123", "tel:+41790000123": "+41790000123",
		"079 000 01 23 (privat)": "+41790000123", "079&nbsp;000&nbsp;01&nbsp;23": "+41790000123", "&#43;41790000123": "+41790000123", "41790000123": "+41790000123",
		"079 000 01 23 x": "", "call me": "", "12": "", "4179000012": "", strings.Repeat("079 000 01 23", 100): "",
	} {
		if got := E164(raw); got != want {
			t.Errorf("%q: %q, want %q", raw, got, want)
		}
	}
	for record, want := range map[string]string{
		`{"phone":{"countryCode":"+41","areaCode":"079","number":"000 01 23"}}`:  `{"Phone":"+41790000123","PhoneRaw":"+41 79 000 01 23"}`,
		`{"phone":{"countryCode":41,"number":"0790000123"}}`:                     `{"Phone":"+41790000123","PhoneRaw":"+41 790000123"}`,
		`{"phone":{"countryCode":"CH","number":"079 000 01 23"}}`:                `{"Phone":"+41790000123","PhoneRaw":"079 000 01 23"}`,
		`{"phone":{"prefix":"0039","number":"06 1234567"}}`:                      `{"Phone":"+39061234567","PhoneRaw":"+39 06 1234567"}`,
		`{"phoneNumbers":[{"countryCode":"+49","number":"+49 30 1234567"}]}`:     `{"Phone":"+49301234567","PhoneRaw":"+49 30 1234567"}`,
		`{"contact":{"vorwahl":"079","telefon":"000 01 23"}}`:                    `{"Phone":"+41790000123","PhoneRaw":"079 000 01 23"}`,
		`{"vorwahl":"044","mobil":"079 000 01 23"}`:                              `{"Phone":"+41790000123","PhoneRaw":"079 000 01 23"}`,
		`{"phone":{"areaCode":"030","number":"030 1234567","countryCode":"49"}}`: `{"Phone":"+49301234567","PhoneRaw":"+49 30 1234567"}`,
		`{"phonePrefix":"+41","phone":"(0)79 000 01 23"}`:                        `{"Phone":"+41790000123","PhoneRaw":"+41 79 000 01 23"}`,
		`{"phone":"on request","mobile":"079 000 01 23"}`:                        `{"Phone":"+41790000123","PhoneRaw":"079 000 01 23"}`,
		`{"phone":"12","mobile":"13"}`:                                           `{"PhoneRaw":"12"}`,
		`{"phoneNumbers":["12",{"number":"079 000 01 23"}]}`:                     `{"Phone":"+41790000123","PhoneRaw":"079 000 01 23"}`,
		`{"phone":41790000123}`:                                                  `{"Phone":"+41790000123","PhoneRaw":"41790000123"}`,
	} {
		sameJSON(t, ContactRequest{Record: json.RawMessage(record)}.Contact(), json.RawMessage(want))
	}
}

func TestAHomeIsReadFromItsParts(t *testing.T) {
	for record, want := range map[string]string{
		`{"contact":{"address":"Weg 3, 8008 Zürich"}}`:                                 `{"Address":{"Street":"Weg 3","PostalCode":"8008","Locality":"Zürich"}}`,
		`{"contact":{"address":"Weg 3\nCH-8008 Zürich"}}`:                              `{"Address":{"Street":"Weg 3","PostalCode":"8008","Locality":"Zürich"}}`,
		`{"contact":{"country":"CH","via":"p","city":""}}`:                             `{}`,
		`{"contact":{"address":{"country":"CH"}}}`:                                     `{"Address":{"Country":"CH"}}`,
		`{"contact":{"address":"Im Weg"}}`:                                             `{"Address":{"Street":"Im Weg"}}`,
		`{"contact":{"street":"Weg","streetNumber":3,"no":7,"zip":"8008","city":"Z"}}`: `{"Address":{"Street":"Weg 3","PostalCode":"8008","Locality":"Z"}}`,
		`{"contact":{"address":{"addressLine1":"Weg 3","zipCode":8008,"town":"Z"}}}`:   `{"Address":{"Street":"Weg 3","PostalCode":"8008","Locality":"Z"}}`,
		`{"street":"Weg 3","zip":"8008","city":"Z","address":"Weg 3"}`:                 `{}`, // may be the property's
		`{"lead":{"street":"Weg 3","plz":"8008"}}`:                                     `{}`,
	} {
		sameJSON(t, ContactRequest{Record: json.RawMessage(record)}.Contact(), json.RawMessage(want))
	}
}

func TestTheCreationTimeIsReadInTheLanguagesOfTheTrade(t *testing.T) {
	for _, name := range []string{"erstelltAm", "Erstellungsdatum", "eingangsdatum", "anfrage_datum", "dateCréation", "date_de_creation", "dateDemande", "dataCreazione", "data_richiesta"} {
		page, err := decodeContactRequests(t, `{"odd":[{"id":1,`+quote(name)+`:"2026-11-20T09:41:07Z","vorname":"N"}]}`)
		if err != nil || page.ContactRequests[0].CreatedAt.IsZero() {
			t.Errorf("%s: %+v, %v", name, page, err)
		}
	}
}

// Reading a person out of a hostile record takes about as long as decoding it: many members and long texts do not multiply
// with the names that are known, which would take seconds.
func TestReadingAPersonIsBounded(t *testing.T) {
	var spellings strings.Builder
	for n := range 10_000 {
		spellings.WriteString(`"e` + strings.Repeat("-", n%100) + `mail` + strings.Repeat("_", n/100) + `":7,`)
	}
	for name, record := range map[string]string{
		"spellings": `{` + spellings.String() + `"x":1}`,
		"members":   `{` + manyMembers(50_000) + `}`,
		"addresses": `{"email":"` + strings.Repeat("a@,", 1<<18) + `"}`,
		"brackets":  `{"email":"` + strings.Repeat("<", 1<<20) + `"}`,
		"entities":  `{"name":"` + strings.Repeat("&amp", 1<<18) + `"}`,
		"phones":    `{"phone":[` + strings.Repeat(`"1",`, 200_000) + `"1"]}`,
		"digits":    `{"phone":"` + strings.Repeat("0", 1<<20) + `","name":"` + strings.Repeat("N", 1<<20) + `"}`,
		"deep":      `{"contact":` + strings.Repeat(`{"contact":`, 5000) + `1` + strings.Repeat(`}`, 5001),
		"list":      `{"email":` + strings.Repeat(`[`, 9000) + strings.Repeat(`]`, 9000) + `}`,
		"addressed": `{"contact":{"address":"` + strings.Repeat("8000 ", 1<<18) + `"}}`,
	} {
		r := ContactRequest{Record: json.RawMessage(record), decoded: valueOf(record)}
		assertQuick(t, name, record, func() { r.Contact() })
	}
}

// assertQuick holds the time that it takes to read a value against that of decoding it, each the shortest of five.
func assertQuick(t *testing.T, name, raw string, read func()) {
	t.Helper()
	fastest := func(do func()) time.Duration {
		best := time.Hour
		for range 5 {
			begin := time.Now()
			do()
			best = min(best, time.Since(begin))
		}
		return best
	}
	decoding, reading := fastest(func() { valueOf(raw) }), fastest(read)
	if reading > 10*decoding+500*time.Millisecond { // a square of the length would take seconds
		t.Errorf("%s: decoded in %v, read in %v", name, decoding, reading)
	}
}

func TestAPersonIsFoundAmongManyMembers(t *testing.T) {
	record := `{` + manyMembers(1000) + `,"phone":"079 000 01 23"}`
	if c := (ContactRequest{Record: json.RawMessage(record)}).Contact(); c.Phone != "+41790000123" {
		t.Errorf("phone %q", c.Phone)
	}
}
