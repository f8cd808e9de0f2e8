package listings

import (
	"net/url"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Claims is what a response says about its own completeness. A claim can disprove that a walk is
// complete, never prove it.
type Claims struct {
	More       Claim // another page follows
	Pages      int   // how many pages there are; 0: not said
	Incomplete bool  // the response says that it lacks something
}

// Claim is a statement that a response may make.
type Claim int

// The values of a Claim.
const (
	Unsaid Claim = iota
	Denied
	Claimed
)

// claimsOf reads what the objects around a list say of its completeness, the metadata in them, and
// the header Link.
func (x *exchange) claimsOf(scopes []object, records int) (all Claims) {
	for _, scope := range scopes {
		for _, m := range scope.heads(1) {
			all.More = max(all.More, x.claimOfMore(m))
			if n, ok := m.count(); ok && m.isCalled(pagesNames) && n != records {
				all.Pages = max(all.Pages, n)
			}
			all.Incomplete = all.Incomplete || m.saysIncomplete()
		}
	}
	if parts := nextLink.FindStringSubmatch(strings.Join(x.header.Values("Link"), ",")); parts != nil {
		all.More = max(all.More, x.claimOfLink(parts[1]))
	}
	return all
}

var nextLink = regexp.MustCompile(`<([^<>]*)> *;[^<>]*rel="?next"?`)

func (x *exchange) claimOfMore(m value) Claim {
	isEnd := m.isCalled(endNames) && m.kind() != jsontext.KindNumber // a number is that of the last page
	if isEnd || m.isCalled(moreNames) {
		no, yes := m.says("false", "0"), m.says("true", "1")
		if isEnd {
			no, yes = yes, no
		}
		switch {
		case yes:
			return Claimed
		case no:
			return Denied
		}
	}
	if m.isCalled(nextNames) {
		return x.claimOfNext(m)
	}
	if !m.isCalled(linksNames) {
		return Unsaid
	}
	for _, link := range m.inner {
		if plain(link.object().text("rel")) == "next" {
			return x.claimOfNext(link)
		}
	}
	return Unsaid
}

// claimOfNext reads a link, a number or a token of the next page. A link to another origin is no
// claim: it may stand for a gateway that the API does not know, and no link is followed.
func (x *exchange) claimOfNext(m value) Claim {
	if m.isObject() {
		return x.claimOfNext(m.object().get("href", "url"))
	}
	if m.raw == nil {
		return Unsaid
	}
	if m.isEmpty() || m.says("false", "0") {
		return Denied
	}
	s, _ := m.scalar()
	return x.claimOfLink(s)
}

func (x *exchange) claimOfLink(s string) Claim {
	link, err := url.Parse(s)
	if err == nil && link.Host != "" && !strings.EqualFold(link.Host, x.host) {
		return Unsaid
	}
	return Claimed
}

// saysIncomplete reports whether a member says that the response lacks something.
func (v value) saysIncomplete() bool {
	name := v.called().plain
	switch {
	case strings.HasPrefix(name, "incomplete"), strings.HasPrefix(name, "isincomplete"), v.isCalled(partialNames):
		return v.isTrue()
	case v.isCalled(completeNames):
		return v.says("false", "0")
	case name == "shards":
		n, ok := v.object().get("failed").count()
		return ok && n > 0
	case name == "status", name == "state", name == "completeness":
		s, _ := v.text()
		return partialWords.MatchString(s)
	}
	return false
}

var partialWords = regexp.MustCompile(`(?i)^(partial|incomplete|truncated|timed[ _-]?out|degraded)`)
