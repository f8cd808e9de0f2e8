package listings

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestAPersonIsReadInTheLanguagesAndShapesOfTheTrade(t *testing.T) {
	for record, want := range map[string]string{
		// German, French and Italian
		`{"Vorname":"Nora","Name":"Beispiel","E-Mail-Adresse":"n@example.org","Mobil-Nummer":"079 000 01 23","Mitteilung":"Hoi"}`:                                                                             `{"FirstName":"Nora","LastName":"Beispiel","Email":"n@example.org","Phone":"+41790000123","PhoneRaw":"079 000 01 23","Message":"Hoi"}`,
		`{"interessent":{"anrede":"Herr","vorname":"Ben","nachname":"Drei","firma":"Drei AG","straße":"Weg","hausnummer":3,"plz":8008,"ort":"Zürich","land":"CH","tel":"0041 44 000 01 23","anfrage":"Hoi"}}`: `{"Salutation":"Herr","FirstName":"Ben","LastName":"Drei","Company":"Drei AG","Address":{"Street":"Weg 3","PostalCode":"8008","Locality":"Zürich","Country":"CH"},"Phone":"+41440000123","PhoneRaw":"0041 44 000 01 23","Message":"Hoi"}`,
		`{"kontaktanfrage":{"absender":{"VOR_NAME":"Ben","FAMILIEN-NAME":"Drei","Geschlecht":"M","natel":"079 000 01 23"},"freitext":"Hoi"},"quelle":"p"}`:                                                    `{"FirstName":"Ben","LastName":"Drei","Gender":"M","Phone":"+41790000123","PhoneRaw":"079 000 01 23","Message":"Hoi","Portal":"p"}`,
		`{"kontaktdaten":{"vollständigerName":"Ben Drei","Rückrufnummer":"079 000 01 23","adresse":{"strasse":"Weg","hausnr":"3a","postleitzahl":"8008","wohnort":"Zürich"}}}`:                                `{"FullName":"Ben Drei","Phone":"+41790000123","PhoneRaw":"079 000 01 23","Address":{"Street":"Weg 3a","PostalCode":"8008","Locality":"Zürich"}}`,
		`{"Civilité":"M.","Prénom":"Ben","Nom de famille":"Trois","Téléphone portable":"079 000 01 23","Adresse e-mail":"b@example.org"}`:                                                                     `{"Salutation":"M.","FirstName":"Ben","LastName":"Trois","Phone":"+41790000123","PhoneRaw":"079 000 01 23","Email":"b@example.org"}`,
		"{\"pre\u0301nom\":\"Ben\",\"nom\":\"Trois\",\"te\u0301le\u0301phone\":\"079 000 01 23\"}":                                                                                                            `{"FirstName":"Ben","LastName":"Trois","Phone":"+41790000123","PhoneRaw":"079 000 01 23"}`, // the accents apart
		`{"demandeur":{"nom":"Ben Trois","courriel":"b@example.org","adresse":{"rue":"Chemin","numéro":3,"code_postal":"1003","ville":"Lausanne","pays":"CH"},"société":"Trois SA"},"commentaire":"Salut"}`:   `{"FullName":"Ben Trois","Email":"b@example.org","Address":{"Street":"Chemin 3","PostalCode":"1003","Locality":"Lausanne","Country":"CH"},"Company":"Trois SA","Message":"Salut"}`,
		`{"mittente":{"nome":"Ben Tre","cellulare":"079 000 01 23","posta_elettronica":"b@example.org","indirizzo":{"via":"Via Tre","numero_civico":3,"CAP":"6900","città":"Lugano","paese":"CH"}}}`:          `{"FullName":"Ben Tre","Phone":"+41790000123","PhoneRaw":"079 000 01 23","Email":"b@example.org","Address":{"Street":"Via Tre 3","PostalCode":"6900","Locality":"Lugano","Country":"CH"}}`,

		// Parts of names
		`{"firstName":"Nora","middleName":"Maria","lastName":"Beispiel"}`:                                   `{"FirstName":"Nora Maria","LastName":"Beispiel"}`,
		`{"from_name":"Ben Drei","from_email":"b@example.org"}`:                                             `{"FullName":"Ben Drei","Email":"b@example.org"}`,
		`{"fname":"Ben","lname":"Drei","email1":"b@example.org","tel_p":"079 000 01 23","Anmerkung":"Hoi"}`: `{"FirstName":"Ben","LastName":"Drei","Phone":"+41790000123","PhoneRaw":"079 000 01 23","Email":"b@example.org","Message":"Hoi"}`,
		`{"lastName":"Drei","from":{"emailAddress":{"name":"Ben Drei","address":"b@example.org"}}}`:         `{"LastName":"Drei","Email":"b@example.org"}`,
		"{\"lastName\":\"Drei\",\"email\":\"\u200bb@example.org\"}":                                         `{"LastName":"Drei","Email":"b@example.org"}`,
		`{"lastName":"Drei","email":"'b@example.org'"}`:                                                     `{"LastName":"Drei","Email":"b@example.org"}`,
		`{"firstName":"Ben","lastNamePrefix":"van der","lastName":"Drei"}`:                                  `{"FirstName":"Ben","LastName":"van der Drei"}`,
		`{"firstName":["Nora","Maria"],"lastName":["Beispiel","Drei"]}`:                                     `{"FirstName":"Nora Maria","LastName":"Beispiel Drei"}`,
		`{"contact":{"name":{"given":"Nora","middle":"M.","family":"Beispiel"}}}`:                           `{"FirstName":"Nora M.","LastName":"Beispiel"}`,
		`{"firstName":"Nora","name":"Beispiel"}`:                                                            `{"FirstName":"Nora","LastName":"Beispiel"}`,
		`{"firstName":"Nora","name":"Nora Beispiel"}`:                                                       `{"FirstName":"Nora","LastName":"Beispiel","FullName":"Nora Beispiel"}`,
		`{"lastName":"von Beispiel","displayName":"Nora von Beispiel"}`:                                     `{"FirstName":"Nora","LastName":"von Beispiel","FullName":"Nora von Beispiel"}`,
		`{"contact":{"person":{"firstName":"Nora"},"lastName":"Beispiel"}}`:                                 `{"FirstName":"Nora","LastName":"Beispiel"}`,

		// Other shapes
		`{}`: `{}`,
		`{"first_name":"N","last_name":"B","phone_number":"0041 79 000 01 23","Email":"n@example.org","lang":"de"}`:                                                 `{"FirstName":"N","LastName":"B","Phone":"+41790000123","PhoneRaw":"0041 79 000 01 23","Email":"n@example.org","Language":"de"}`,
		`{"contact":{"firstName":"N","phoneNumbers":[{"type":"MOBILE","number":"079 000 01 23"}],"address":{"street":"Weg","zip":8005,"city":"Z","country":"CH"}}}`: `{"FirstName":"N","Phone":"+41790000123","PhoneRaw":"079 000 01 23","Address":{"Street":"Weg","PostalCode":"8005","Locality":"Z","Country":"CH"}}`,
		`{"sender":{"name":"N B"},"message":{"text":"Hi"},"portal":"p","street":"of the property"}`:                                                                 `{"FullName":"N B","Message":"Hi","Portal":"p"}`,
		`{"contactRequest":{"person":{"email":"n@example.org"},"message":" Hi\n"},"metadata":{"portal":"p"}}`:                                                       `{"Email":"n@example.org","Message":" Hi\n","Portal":"p"}`,
		`{"contact":{"email":null,"phone":{"number":"12"}},"email":"n@example.org","source":{"x":1}}`:                                                               `{"Email":"n@example.org","PhoneRaw":"12"}`,
		`{"contactRequest":{"firstName":"N","lastName":"B","gender":"F","email":"n@example.org","language":"de","phoneNumbers":[{"type":"MOBILE","number":"079 000 01 23","verified":true}],"message":"Hi","isOwner":false},"property":{"classifiedId":"c","contact":{"email":"agent@example.org"}},"metadata":{"leadId":"l","portal":"p"}}`: `{"FirstName":"N","LastName":"B","Gender":"F","Email":"n@example.org","Language":"de","Phone":"+41790000123","PhoneRaw":"079 000 01 23","Message":"Hi","Portal":"p"}`,
		`{"id":1,"enquiryType":"x","message":"Hi","referenceId":"r","sender":{"firstName":"N","lastName":"B","email":"n@example.org","phoneNumber":"+49 30 1234567"},"dateReceived":"2026-11-20T10:41:07Z","agencyId":7}`:                                                                                                                    `{"FirstName":"N","LastName":"B","Email":"n@example.org","Phone":"+49301234567","PhoneRaw":"+49 30 1234567","Message":"Hi"}`,
		`{"email_id":5,"from_address":"n@example.org","user":{"user_contact_details":{"first_name":"N","last_name":"B","phone_day":"079 000 01 23"},"user_information":{"comments":"Hi"}},"property":{"agent_ref":"x"}}`:                                                                                                                     `{"FirstName":"N","LastName":"B","Email":"n@example.org","Phone":"+41790000123","PhoneRaw":"079 000 01 23","Message":"Hi"}`,
		`{"name":{"first":"N","last":"B"},"emails":[{"address":"n@example.org"}],"preferences":{"contactMethod":"PHONE"}}`:                                                                                                                                                                                                                   `{"FirstName":"N","LastName":"B","Email":"n@example.org","PreferredContact":"PHONE"}`,
		`{"customer":{"firstName":"N","email":"n@example.org"}}`: `{"FirstName":"N","Email":"n@example.org"}`,
		`{"property":{"name":"Block B","email":"x","phone":"079 000 01 23","address":{"city":"Z"}},"agent":{"name":"A","email":"a@example.org"},"listing":{"contact":{"email":"a@example.org"}}}`: `{}`,
		`{"node":{"attributes":{"email":"n@example.org"}}}`:                                   `{"Email":"n@example.org"}`,
		`{"contact":{"address":null,"postalAddress":{"city":"Z"}},"email":["n@example.org"]}`: `{"Address":{"Locality":"Z"},"Email":"n@example.org"}`,

		// Where the person lives
		`{"contact":{"country":"CH","via":"p","city":""}}`:                             `{}`,
		`{"contact":{"address":{"country":"CH"}}}`:                                     `{"Address":{"Country":"CH"}}`,
		`{"contact":{"address":"Im Weg"}}`:                                             `{"Address":{"Street":"Im Weg"}}`,
		`{"contact":{"street":"Weg","streetNumber":3,"no":7,"zip":"8008","city":"Z"}}`: `{"Address":{"Street":"Weg 3","PostalCode":"8008","Locality":"Z"}}`,
		`{"street":"Weg 3","zip":"8008","city":"Z","address":"Weg 3"}`:                 `{}`, // may be the property's
		`{"lead":{"street":"Weg 3","plz":"8008"}}`:                                     `{}`,

		// Parts of phone numbers
		`{"phone":{"countryCode":"+41","areaCode":"079","number":"000 01 23"}}`:  `{"Phone":"+41790000123","PhoneRaw":"+41 79 000 01 23"}`,
		`{"phone":{"countryCode":"CH","number":"079 000 01 23"}}`:                `{"Phone":"+41790000123","PhoneRaw":"079 000 01 23"}`,
		`{"phone":{"prefix":"0039","number":"06 1234567"}}`:                      `{"Phone":"+39061234567","PhoneRaw":"+39 06 1234567"}`,
		`{"contact":{"vorwahl":"079","telefon":"000 01 23"}}`:                    `{"Phone":"+41790000123","PhoneRaw":"079 000 01 23"}`,
		`{"phone":{"areaCode":"030","number":"030 1234567","countryCode":"49"}}`: `{"Phone":"+49301234567","PhoneRaw":"+49 30 1234567"}`,
		`{"phonePrefix":"+41","phone":"(0)79 000 01 23"}`:                        `{"Phone":"+41790000123","PhoneRaw":"+41 79 000 01 23"}`,
		`{"phone":"on request","mobile":"079 000 01 23"}`:                        `{"Phone":"+41790000123","PhoneRaw":"079 000 01 23"}`,
		`{"phone":"12","mobile":"13"}`:                                           `{"PhoneRaw":"12"}`,

		// Who writes
		`{"email":"-","mail":"ben@example.org"}`:                         `{"Email":"ben@example.org"}`,
		`{"from":"Ben Drei <ben@example.org>","message":"x"}`:            `{"Email":"ben@example.org","FullName":"Ben Drei","Message":"x"}`,
		`{"sender":"ben@example.org"}`:                                   `{"Email":"ben@example.org"}`,
		`{"replyTo":{"email":"ben@example.org"}}`:                        `{"Email":"ben@example.org"}`,
		`{"email":"Benny <ben@example.org>","contact":{"company":"AG"}}`: `{"Email":"ben@example.org","FullName":"Benny","Company":"AG"}`,
	} {
		sameJSON(t, ContactRequest{Record: json.RawMessage(record)}.Contact(), json.RawMessage(want))
	}
	for email, want := range map[string]string{
		`"ben@example.org"`:                                 `{"Email":"ben@example.org"}`,
		`"Ben Drei <ben@example.org>"`:                      `{"Email":"ben@example.org","FullName":"Ben Drei"}`,
		`"Drei, Ben <ben@example.org>"`:                     `{"Email":"ben@example.org","FullName":"Drei, Ben"}`,
		`"Jürg Müller <juerg@example.org>"`:                 `{"Email":"juerg@example.org","FullName":"Jürg Müller"}`,
		`"=?utf-8?q?J=C3=BCrg?= <juerg@example.org>"`:       `{"Email":"juerg@example.org","FullName":"Jürg"}`,
		`"ben@example.org (Ben Drei)"`:                      `{"Email":"ben@example.org","FullName":"Ben Drei"}`,
		`"Ben &lt;ben@example.org&gt;"`:                     `{"Email":"ben@example.org","FullName":"Ben"}`,
		`"MAILTO:ben@example.org?subject=Wohnung&body=x@y"`: `{"Email":"ben@example.org"}`,
		`"mailto:ben+home@example.org"`:                     `{"Email":"ben+home@example.org"}`,
		`"<mailto:ben@example.org|ben@example.org>"`:        `{"Email":"ben@example.org"}`,
		`"ben@example.org<mailto:ben@example.org>"`:         `{"Email":"ben@example.org"}`,
		`"ben＠example.org"`:                                 `{"Email":"ben@example.org"}`,
		`"ben@bücher.example"`:                              `{"Email":"ben@xn--bcher-kva.example"}`,
		"\"ben@bu\u0308cher.example\"":                      `{"Email":"ben@xn--bcher-kva.example"}`,
		`"ben@例え。テスト"`:                                      `{"Email":"ben@xn--r8jz45g.xn--zckzah"}`,
		`"ben@example.org, nora@example.org"`:               `{"Email":"ben@example.org"}`,
		`"ben@a..b;nora@example.org"`:                       `{"Email":"nora@example.org"}`,
		`["", null, "none", "ben@example.org"]`:             `{"Email":"ben@example.org"}`,
		`{"address":"Ben <ben@example.org>"}`:               `{"Email":"ben@example.org","FullName":"Ben"}`,
		`"ben.example.org"`:                                 `{"Email":"ben.example.org"}`, // none that can be read: as sent
		`" none "`:                                          `{"Email":"none"}`,
	} {
		sameJSON(t, ContactRequest{Record: json.RawMessage(`{"email":` + email + `}`)}.Contact(), json.RawMessage(want))
	}
}

func TestPhoneNumbersAreWrittenInternationallyOnlyWhereTheyClearlyAre(t *testing.T) {
	for want, numbers := range map[string][]string{
		"+41790000123": {
			"079 000 01 23", "079/000.01-23", "(079) 000 01 23", "0041 79 000 01 23", "+41 (0)79 000 01 23", "+41 079 000 01 23",
			"+41 [0] 79 000 01 23", "0041(0)79 000 01 23", "079 000’01’23", "079_000_01_23", "41790000123",
			"079\u2007000\u200901\u202f23", "\u202a+41 79 000 01 23\u202c", "079\u00ad000\u200b0123", "079\u2212000\u22120123",
			"０７９ ０００ ０１ ２３", "＋41（0）79 000 01 23", "079–000–01–23", "Tel. 079 000 01 23", "tel:+41790000123",
			"079 000 01 23 (privat)", "079&nbsp;000&nbsp;01&nbsp;23", "&#43;41790000123",
		},
		"+41440000123": {
			"044 000 01 23", "(0)44 000 01 23", "+41 44 000 01 23 ext. 5", "+41 44 000 01 23 x55", "044 000 01 23 Durchwahl 12",
			"tel:+41-44-000-01-23;ext=12", "044 000 01 23, int. 12", "044 000 01 23 #12",
		},
		"+49301234567": {"+49 30 1234567", "0049 (0) 30 1234567", "+49 (0)30 1234567", "+49 030 1234567"},
		"+33123456789": {"+33(0)1.23.45.67.89", "+33 01 23 45 67 89", "+33 1 23 45 67 89 poste 12"},
		"+4231234567":  {"+423 (0)123 45 67"},
		"+37812345678": {"+378 12345678"},

		// The zero belongs to Italian numbers and those of San Marino.
		"+39061234567":   {"+39 (0)6 1234567", "0039 (0)6 1234567", "+39 [0]6 1234567", "+39 06 1234567", "00 39 (0)6 1234567"},
		"+39021234567":   {"+39(0)2.1234567"},
		"+3780549123456": {"+378 (0)549 123456", "+378 0549 123456"},
		"": {
			"", "030 1234567", "79 000 01 23", "079 000 01 2", "079 000 01 2x", "079 000 01 234", "079 000 01 23 / 044 000 01 23",
			"+4179", "+0123456789", "+1234567890123456", "++41790000123", "on request", "+41 800 000", "4179000012",
			strings.Repeat("079 000 01 23", 100),
		},
	} {
		for _, raw := range numbers {
			if got := E164(raw); got != want {
				t.Errorf("%q: %q, want %q", raw, got, want)
			}
		}
	}
}
