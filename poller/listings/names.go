package listings

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// The members of a response are not documented. Everything that is known by name is in this file,
// in plain form: what differs by style only (createdAt, created_at, created-at, CreatedAt, and
// prénom, prenom, straße, strasse) is the same.

func plain(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return r > unicode.MaxASCII }) {
		name = strings.ReplaceAll(strings.ToLower(norm.NFD.String(name)), "ß", "ss")
	}
	return strings.Map(func(r rune) rune {
		switch {
		case r == '_' || r == '-' || r == ' ' || unicode.Is(unicode.Mn, r):
			return -1
		case 'A' <= r && r <= 'Z':
			return r + 'a' - 'A'
		}
		return r
	}, name)
}

// words are those of a text.
func words(text string) []string { return strings.Fields(text) }

func plainNames(names []string) []string {
	list := make([]string, len(names))
	for n, name := range names {
		list[n] = plain(name)
	}
	return list
}

// SameName says whether two names differ in style only, so that [ContactRequest.ID] may read the
// same member for both.
func SameName(a, b string) bool { return plain(a) == plain(b) }

// The envelope.
var (
	// genericNames are what lists of anything are called.
	genericNames = words(`
		results items content data records elements entries list hits objects values rows edges
		nodes result resultlist collection value docs hydra:member member payload $values
		ergebnisse resultate daten eintraege eintrage resultats donnees risultati dati elementi`)
	insertionNames = words(`
		insertions listings properties realestates insertionlist propertylist listinglist
		inserate objekte immobilien liegenschaften annonces biens immeubles annunci immobili`)
	contactNames = words(`
		contactrequests requests leads inquiries enquiries applicants contactrequestlist
		leadlist emails kontaktanfragen anfragen interessenten demandes demandescontact
		demandesdecontact richieste richiestecontatto richiestedicontatto`)
	listNames = slices.Concat(insertionNames, contactNames, genericNames)
	// sideNames are lists of other things beside the records.
	sideNames = words(`
		links facets filters aggregations sort sorts warnings messages notifications tags
		included`)

	// What is called a count may be that of the page, so that it says something only where it is
	// larger.
	totalNames = words(`
		total totalcount totalelements totalitems totalnumberofitems totalresults totalrecords
		totalhits totalsize totalnumberofelements hydra:totalitems numfound @odata.count
		odata.count totaldocs cntabsolute gesamt gesamtzahl gesamtanzahl nombretotal totale
		numerototale`)
	countNames   = words(`count resultcount anzahl nombre`)
	metaNames    = words(`meta pagination paging page pageinfo metadata header`)
	totalHeaders = words(`X-Total-Count X-Total Total-Count X-Pagination-Total-Count`)

	errorNames   = words(`error errors fault exception`)
	failureNames = words(`iserror haserror haserrors failed`)
	successNames = words(`success successful issuccess ok`)
	codeNames    = words(`statuscode httpstatus code errorcode`)

	moreNames = words(`
		hasmore hasnext hasnextpage hasmorepages hasmoreresults more morepages moreavailable
		moreresults`)
	endNames  = words(`last islast lastpage islastpage end isend`)
	nextNames = words(`
		next nextpage nextlink nexturl nexthref nextpageurl nextcursor nextpagetoken nexttoken
		@odata.nextlink odata.nextlink`)
	linksNames   = []string{"links", "link"}
	pagesNames   = words(`totalpages pagecount numberofpages pages pagestotal lastpage`)
	partialNames = words(`
		partial ispartial partialresult partialresults partialdata truncated istruncated
		timedout terminatedearly warnings warning degraded isdegraded skippedshards failedshards`)
	completeNames = words(`complete iscomplete completed allresults exhaustive isexhaustive`)

	// What speaks of an error beside an empty list.
	errorPrefixes = words(`
		error exception fault failure problem lasterror haserror apierror @error odata.error`)
	messageLists = words(`messages message notifications notices alerts result info`)
	kindNames    = words(`type kind level severity category status messagetype`)
	wordCodes    = words(`code statuscode resultcode responsecode returncode reasoncode reason`)

	failureWords = regexp.MustCompile(`(?i)error|fail|forbidden|unauthorized|denied`)
	errorWords   = regexp.MustCompile(
		`(?i)error|exception|fault|fail|fatal|critical|severe|forbidden|unauthori[sz]ed|denied|` +
			`exceed|limit|quota|throttl|unavailable|overload|timeout|timed[ _-]?out|too[ _-]?many|invalid|refused|abort`)
	harmlessWords = regexp.MustCompile(
		`(?i)^(ok(ay)?|success(ful)?|succeeded|fine|done|none|ended|empty|found|ready|completed?|[0-9]*|` +
			`no[_ -]?(errors?|results?|records?|content|data))$`)
	partialWords = regexp.MustCompile(`(?i)^(partial|incomplete|truncated|timed[ _-]?out|degraded)`)
)

// Insertions.
var (
	referenceNames = []string{"propertyreferenceid", "objectreference"}
	agencyNames    = []string{"agencyid"}
	// insertionMembers are what the member of an element is called that holds the insertion, if it
	// is not the element.
	insertionMembers = words(`insertion listing property realestate node attributes item`)
)

// Contact requests.
var (
	// IDFields are the names under which the id of a contact request is looked for, best first.
	IDFields = words(`
		id contactRequestId requestId leadId inquiryId enquiryId messageId uuid _id`)

	// Names that tell a contact request: what can be sorted by, and what a person has.
	surest = words(`
		createdat score creationdate datecreated createddate datereceived receivedat erstelltam
		erstellungsdatum eingangsdatum datecreation datedecreation datacreazione`)
	personal = words(`
		email phone message contact sender contactrequest telefon nachricht interessent absender
		kontaktanfrage telephone courriel demandeur telefono messaggio mittente`)

	// creationNames are what the time of creation is called, surest first.
	creationNames = words(`
		createdat creationdate created datereceived receivedat timestamp createddate datecreated
		createdon creationtime createdtime createtime creationtimestamp createdtimestamp
		receiveddate submittedat submissiondate requestedat requestdate inquirydate enquirydate
		emaildate sentat erstelltam erstellungsdatum erfasstam eingangsdatum eingegangenam
		anfragedatum zeitstempel datecreation datedecreation datereception datedereception
		datedemande horodatage datacreazione datadicreazione dataricezione datarichiesta
		creatoil ricevutoil`)
	// wrapperNames are members that may hold what others have at the top of a record.
	wrapperNames = words(`
		metadata contactrequest request lead inquiry enquiry node attributes elements item
		source kontaktanfrage anfrage demande demandecontact richiesta`)
	// personNames are members that hold the person, or all of the contact request.
	personNames = slices.Concat(words(`
		contact sender person applicant requester inquirer enquirer seeker prospect user
		contactdetails contactdata contactinformation personaldata usercontactdetails
		userinformation interessent mietinteressent kaufinteressent kontakt kontaktdaten
		kontaktperson absender anfragender bewerber personendaten personalien demandeur
		interesse expediteur personne coordonnees contatto mittente anfragesteller kaeufer
		kaufer acheteur acquirente richiedente interessato persona utente`), wrapperNames[1:])  // all but the metadata
	customerNames = words(`customer kunde client cliente`)
)

// What a person has, in English, German, French and Italian. All of it is personal data.
var (
	salutationNames = words(`salutation formofaddress anrede civilite appellativo`)
	genderNames     = words(`gender geschlecht sexe sesso`)
	firstNames      = words(`
		firstname givenname forename senderfirstname contactfirstname vorname fname
		leadfirstname vornamen prenom prenoms`)
	middleNames = words(`middlename middlenames zweitername deuxiemeprenom secondonome`)
	lastNames   = words(`
		lastname familyname surname senderlastname contactlastname lname leadlastname nachname
		familienname zuname nomdefamille cognome`)
	lastPrefixes = words(`lastnameprefix familynameprefix namensvorsatz namenszusatz particule`)
	fullNames    = words(`
		fullname displayname sendername contactname vollstaendigername fromname leadname
		vollstandigername vollername vorundnachname vornamename namevorname nomcomplet nomprenom
		prenomnom nomecompleto nomecognome nominativo`)
	bareNames    = []string{"name", "nom"} // the last or the whole name
	givenNames   = []string{"nome"}        // the first or the whole name
	companyNames = words(`
		company companyname organization organisation firma firmenname unternehmen societe
		entreprise raisonsociale azienda societa ditta ragionesociale`)
	emailNames = words(`
		email emailaddress mail senderemail contactemail fromaddress emails fromemail leademail
		email1 emailprivat emailprivate mel emailaddresses emailadresse mailadresse courriel
		adresseemail adressemail adressecourriel adresseelectronique postaelettronica
		indirizzoemail indirizzomail`)
	// senderNames may hold an address or something else.
	senderNames = words(`
		from replyto sender contact absender kontakt expediteur mittente contatto`)
	phoneNames = words(`
		phone phonenumber mobile mobilephone mobilenumber mobilephonenumber telephone
		telephonenumber tel cellphone senderphone contactphone phoneday phoneevening
		phonenumbers phones telephones telefon telefonnummer telefonnr telnr rufnummer
		rueckrufnummer ruckrufnummer mobil mobiltelefon mobilnummer mobilnr handy handynummer
		natel natelnummer festnetz telefonmobil telefonprivat telefongeschaeft telefongeschaft
		telephoneportable telportable portable telephonemobile telephonefixe numerotelephone
		numerodetelephone gsm telefono telefonocellulare telefonomobile telefonofisso cellulare
		numerotelefono numeroditelefono recapitotelefonico leadphone phone1 phone2 tel1 tel2
		telefon1 telefon2 tel. telp telg telm telprivat telgeschaeft telgeschaft telmobil
		telmobile telprof telprofessionnel handynr mobilfunk mobilfunknummer natelnr`)
	phoneCountries = words(`
		phonecountrycode countrycallingcode callingcode dialcode phoneprefix countryprefix
		laendervorwahl landervorwahl landesvorwahl indicatifpays prefissointernazionale`)
	phoneAreas    = words(`areacode phoneareacode vorwahl ortsvorwahl indicatif prefisso`)
	languageNames = words(`
		language preferredlanguage languagecode lang locale sprache korrespondenzsprache langue
		lingua`)
	messageNames = words(`
		message messagetext messagebody text body comment comments remarks inquiry enquiry
		nachricht nachrichtentext mitteilung anfragetext freitext bemerkung bemerkungen
		kommentar anfrage anmerkung anmerkungen kommentare textnachricht ihrenachricht
		commentaire commentaires texte demande messaggio testo commento commenti richiesta
		remarque remarques votremessage osservazioni iltuomessaggio`)
	homeNames = words(`
		address homeaddress postaladdress adresse anschrift wohnadresse privatadresse
		postadresse adressepostale domicile indirizzo residenza`)
	streetNames = words(`
		street streetname streetaddress addressline1 strasse strassenname strassehausnummer rue`)
	houseNumbers = words(`housenumber streetnumber hausnummer hausnr numerocivico numerorue`)
	postalCodes  = words(`
		postalcode zipcode zip plz postcode postleitzahl codepostal npa cap codicepostale`)
	localityNames = words(`
		locality city town ort ortschaft wohnort stadt ville localite citta localita comune`)
	countryNames    = words(`country countrycode land laendercode landercode pays paese nazione`)
	preferenceNames = words(`
		preferredcontact preferredcontactmethod contactpreference preferredcontacttype
		contactmethod bevorzugterkontakt bevorzugtekontaktart kontaktart contactprefere
		moyendecontact contattopreferito`)
	portalNames = words(`portal sourceportal source platform quelle portail portale`)

	// isPersonField holds the names of members that hold personal data, or objects around it.
	isPersonField = wordsOf(
		salutationNames, firstNames, middleNames, lastNames, lastPrefixes, fullNames, bareNames,
		givenNames, companyNames, emailNames, phoneNames, messageNames, homeNames, personNames,
		genderNames, words(`language sprache langue lingua birthdate dateofbirth geburtsdatum`),
	)

	// personWords are all names under which something is read of a person.
	personWords = wordsOf(
		slices.Collect(maps.Keys(isPersonField)), senderNames, customerNames, languageNames,
		phoneCountries, phoneAreas, streetNames, houseNumbers, postalCodes, localityNames,
		countryNames, preferenceNames, portalNames, []string{"preferences"},
	)
)

func wordsOf(lists ...[]string) map[string]bool {
	all := map[string]bool{}
	for _, name := range slices.Concat(lists...) {
		all[name] = true
	}
	return all
}
