package listings

import (
	"slices"
	"strings"
)

// Nothing says what the members of an answer are called. All that is known by name is in this file, in plain form: what
// differs by style only (createdAt, created_at, created-at, CreatedAt) is the same.

func plain(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '_' || r == '-' || r == ' ':
			return -1
		case 'A' <= r && r <= 'Z':
			return r + 'a' - 'A'
		}
		return r
	}, name)
}

func plainNames(names []string) []string {
	list := make([]string, len(names))
	for n, name := range names {
		list[n] = plain(name)
	}
	return list
}

// SameName says whether two names differ in style only, so that [ContactRequest.ID] may read the same member for both.
func SameName(a, b string) bool { return plain(a) == plain(b) }

// isCalled says whether a member has one of the names.
func (v value) isCalled(names []string) bool { return slices.Contains(names, v.called().plain) }

// The envelope.
var (
	// genericNames are what lists of anything are called.
	genericNames = []string{
		"results", "items", "content", "data", "records", "elements", "entries", "list", "hits", "objects", "values", "rows",
		"edges", "nodes", "result", "resultlist", "collection", "value", "docs",
	}
	insertionNames = []string{"insertions", "listings", "properties", "realestates", "insertionlist", "propertylist", "listinglist"}
	contactNames   = []string{"contactrequests", "requests", "leads", "inquiries", "enquiries", "applicants", "contactrequestlist", "leadlist", "emails"}
	listNames      = slices.Concat(insertionNames, contactNames, genericNames)
	// sideNames are lists of other things beside the records.
	sideNames = []string{
		"links", "facets", "filters", "aggregations", "sort", "sorts", "warnings", "messages", "notifications", "tags", "included",
	}

	// What is called a count may be that of the page, so that it says something only where it is larger.
	totalNames = []string{
		"total", "totalcount", "totalelements", "totalitems", "totalnumberofitems", "totalresults", "totalrecords", "totalhits",
		"totalsize", "totalnumberofelements", "numfound", "@odata.count", "odata.count",
	}
	countNames   = []string{"count", "resultcount"}
	metaNames    = []string{"meta", "pagination", "paging", "page", "pageinfo", "metadata", "header"}
	totalHeaders = []string{"X-Total-Count", "X-Total", "Total-Count", "X-Pagination-Total-Count"}

	errorNames   = []string{"error", "errors", "fault", "exception"}
	failureNames = []string{"iserror", "haserror", "haserrors", "failed"}
	successNames = []string{"success", "successful", "issuccess", "ok"}
	codeNames    = []string{"statuscode", "httpstatus", "code", "errorcode"}
	errorCodes   = []string{"errorcode"}
)

// Insertions.
var (
	referenceNames = []string{"propertyreferenceid", "objectreference"}
	agencyNames    = []string{"agencyid"}
	// insertionMembers are what the member of an element is called that holds the insertion, if it is not the element.
	insertionMembers = []string{"insertion", "listing", "property", "realestate", "node", "attributes", "item"}
	// publicationNames are what the moment is called at which an insertion was published, surest first. That of its creation
	// stands for it where there is none.
	publicationNames = append([]string{
		"publishedat", "publicationdate", "datepublished", "publisheddate", "publishdate", "publishedon", "firstpublishedat",
		"onlinesince", "onlinedate", "activatedat", "activationdate",
	}, slices.DeleteFunc(slices.Clone(creationNames), func(name string) bool { return !strings.Contains(name, "creat") })...)
)

// Contact requests.
var (
	// IDFields are the names under which the id of a contact request is looked for, best first.
	IDFields = []string{
		"id", "contactRequestId", "requestId", "leadId", "inquiryId", "enquiryId", "messageId", "uuid", "_id",
	}

	// Names that tell a contact request: what can be sorted by, and what a person has.
	surest   = []string{"createdat", "score", "creationdate", "datecreated", "createddate", "datereceived", "receivedat"}
	personal = []string{"email", "phone", "message", "contact", "sender", "contactrequest"}

	// creationNames are what the time of creation is called, surest first.
	creationNames = []string{
		"createdat", "creationdate", "created", "datereceived", "receivedat", "timestamp",
		"createddate", "datecreated", "createdon", "creationtime", "createdtime", "createtime", "creationtimestamp", "createdtimestamp",
		"receiveddate", "submittedat", "submissiondate", "requestedat", "requestdate", "inquirydate", "enquirydate", "emaildate", "sentat",
	}
	// wrapperNames are members that may hold what others have at the top of a record.
	wrapperNames = []string{
		"metadata", "contactrequest", "request", "lead", "inquiry", "enquiry", "node", "attributes", "item",
	}
	// personNames are members that hold the person, or all of the contact request.
	personNames = []string{
		"contact", "sender", "person", "applicant", "requester", "inquirer", "enquirer", "seeker", "prospect", "user",
		"contactdetails", "contactdata", "contactinformation", "personaldata", "usercontactdetails", "userinformation",
		"contactrequest", "request", "lead", "inquiry", "enquiry", "node", "attributes", "item",
	}
)

// What a person has. All of it is personal data.
var (
	salutationNames = []string{"salutation", "formofaddress"}
	firstNames      = []string{"firstname", "givenname", "forename", "senderfirstname", "contactfirstname"}
	lastNames       = []string{"lastname", "familyname", "surname", "senderlastname", "contactlastname"}
	fullNames       = []string{"fullname", "displayname", "name", "sendername", "contactname"}
	companyNames    = []string{"company", "companyname", "organization", "organisation"}
	emailNames      = []string{"email", "emailaddress", "mail", "senderemail", "contactemail", "fromaddress"}
	emailLists      = []string{"emails", "emailaddresses"}
	phoneNames      = []string{
		"phone", "phonenumber", "mobile", "mobilephone", "mobilenumber", "mobilephonenumber", "telephone", "telephonenumber", "tel",
		"cellphone", "senderphone", "contactphone", "phoneday", "phoneevening",
	}
	phoneLists      = []string{"phonenumbers", "phones", "telephones"}
	languageNames   = []string{"language", "preferredlanguage", "languagecode", "lang", "locale"}
	messageNames    = []string{"message", "messagetext", "messagebody", "text", "body", "comment", "comments", "remarks", "inquiry", "enquiry"}
	homeNames       = []string{"address", "homeaddress", "postaladdress"}
	preferenceNames = []string{"preferredcontact", "preferredcontactmethod", "contactpreference", "preferredcontacttype", "contactmethod"}

	// personFields are the names of members that hold personal data, or objects around it.
	personFields = slices.Concat(
		salutationNames, firstNames, lastNames, fullNames, companyNames, emailNames, emailLists, phoneNames, phoneLists, messageNames,
		homeNames, personNames, []string{"gender", "language", "birthdate", "dateofbirth"},
	)
)
