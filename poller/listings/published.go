package listings

import (
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// publicationNames are what the moment is called at which an insertion was published, surest first. That of its creation
// stands for it where there is none.
var publicationNames = append([]string{
	"publishedat", "publicationdate", "datepublished", "publisheddate", "publishdate", "publishedon", "firstpublishedat",
	"onlinesince", "onlinedate", "activatedat", "activationdate",
}, slices.DeleteFunc(slices.Clone(creationNames), func(name string) bool { return !strings.Contains(name, "creat") })...)

// Published is when an insertion was published or else created, directly in its record or one level down; zero if nothing
// there can be read as such a time.
func (c *Client) Published(i Insertion) time.Time {
	o := parse(jsontext.Value(i.Record))
	scopes := []object{o}
	for inner := range o.all(append([]string{"publication"}, wrapperNames...)...) {
		scopes = append(scopes, parse(inner))
	}
	for _, scope := range scopes {
		for value := range scope.all(publicationNames...) {
			if at := instant(value, c.o.TimeZone); !at.IsZero() {
				return at
			}
		}
	}
	return time.Time{}
}
