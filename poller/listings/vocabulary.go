package listings

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"time"
)

// What others may know of this package's reading: those who describe a response without its values.

// KnownName reports whether a name is one of those by which this package reads responses, however
// it is spelled. It is a word of the trade then, and no data.
func KnownName(name string) bool { return knownNames[plain(name)] }

// SpeaksOfResponse reports whether a member of that name says whether a response failed, or whether
// it is complete.
func SpeaksOfResponse(name string) bool { return speakingNames[plain(name)] }

// CountsRecords reports whether a number of that name is the total of the records.
func CountsRecords(name string) bool {
	return slices.Contains(totalNames, plain(name)) || slices.Contains(countNames, plain(name))
}

// LinksToNext reports whether a header Link names a next page.
func LinksToNext(link string) bool { return nextLink.MatchString(link) }

// TimeForm names the form in which a text or number is read as a time.
func TimeForm(text string) string {
	if _, form := epoch(text); form != FormUnreadable {
		return form
	}
	at, form := calendar(text, time.UTC)
	if at.IsZero() {
		return FormUnreadable
	}
	return form
}

// Remark is the words by which a text says that a response failed, that it is incomplete, or that
// all is well: of this package, never of the text alone. It is empty for other texts.
func Remark(text string) string {
	text = strings.ToLower(strings.TrimSpace(text))
	if harmlessWords.MatchString(text) && !allDigits(text) || text == "true" || text == "false" {
		return text
	}
	return cmp.Or(partialWords.FindString(text), errorWords.FindString(text))
}

var speakingNames = wordsOf(
	errorNames, errorPrefixes, failureNames, successNames, codeNames, wordCodes, kindNames,
	moreNames, endNames, nextNames, partialNames, completeNames,
	words(`status state completeness shards incomplete isincomplete incompleteresults`),
)

var knownNames = wordsOf(
	slices.Concat(listNames, sideNames, totalNames, countNames, metaNames, linksNames, pagesNames),
	slices.Concat(referenceNames, agencyNames, insertionMembers, plainNames(IDFields), surest,
		creationNames, wrapperNames, customerNames),
	slices.Collect(maps.Keys(personWords)), slices.Collect(maps.Keys(speakingNames)),
	messageLists,
	// Of envelopes and of times as libraries write them.
	words(`
		size pagesize limit offset skip first prev previous self href rel url uri cursor return
		body envelope embedded number numberofelements numberofitemsperpage itemsperpage perpage
		currentpage from to relation response sorted unsorted pageable paged unpaged success
		details detail path version @odata.context odata.context $date $numberlong $oid date
		datetime timezone timezonetype time seconds nanos nanoseconds nano epochsecond year
		month monthvalue dayofmonth dayofweek dayofyear day hour minute second chronology
		calendartype updatedat modifiedat lastmodified publishedat instance @context @id @type
		hydra:view _links _embedded @graph`),
	// Of insertions.
	words(`
		title titel titre titolo description beschreibung offertype ranktype rank rooms
		numberofrooms zimmer livingspace surface area floor price prices rent buy gross net
		extra amount currency interval grossrent netrent purchaseprice images pictures documents
		attachments characteristics categories category type localization location coordinates
		latitude longitude lat lon lng availablefrom yearbuilt externalid agency lister
		customerid listerid views clicks viewingtimes read tags index key primary de fr it en rm`),
)
