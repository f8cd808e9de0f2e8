package forward

import (
	"strings"
	"testing"

	"doorbell/events"
)

func TestAnEventMustMeetEveryConditionOfALine(t *testing.T) {
	fifty := 50.0
	score := Filter{MinScore: &fifty}
	flat := `"insertion":{"postalCode":" 8005 ","offerType":"RENT"}`
	for name, c := range map[string]struct {
		f     Filter
		data  string
		wants bool
	}{
		"at the score":        {score, `{"score":50}`, true},
		"below":               {score, `{"score":49.9}`, false},
		"as a text":           {score, `{"score":" 72.5 "}`, true},
		"with an exponent":    {score, `{"score":1e1}`, false},
		"a word":              {score, `{"score":"high"}`, false},
		"null":                {score, `{"score":null}`, false},
		"none":                {score, `{}`, false},
		"no number":           {score, `{"score":"NaN"}`, false},
		"no condition":        {Filter{}, `{"score":"high"}`, true},
		"a code":              {Filter{PostalCodes: []string{"8004", "8005"}}, "{" + flat + "}", true},
		"another code":        {Filter{PostalCodes: []string{"8004", "80"}}, "{" + flat + "}", false},
		"no code":             {Filter{PostalCodes: []string{"8005"}}, `{}`, false},
		"an offer":            {Filter{OfferTypes: []string{"rent"}}, "{" + flat + "}", true},
		"another offer":       {Filter{OfferTypes: []string{"SALE"}}, "{" + flat + "}", false},
		"a reference":         {Filter{Reference: "see*"}, `{}`, true},
		"upper case":          {Filter{Reference: "See*"}, `{}`, false},
		"the whole reference": {Filter{Reference: "see"}, `{}`, false},
		"an agency":           {Filter{Agencies: []string{"B", "A#1"}}, `{}`, true},
		"another agency":      {Filter{Agencies: []string{"B"}}, `{}`, false},
		"of no agency":        {Filter{Agencies: []string{}}, `{}`, false},
		"but it":              {Filter{Except: []string{"A#1"}}, `{}`, false},
		"another type":        {Filter{Types: []string{"insertion.>"}}, `{}`, false},
		"a pattern":           {Filter{Types: []string{"contact_request.>"}}, `{}`, true},
	} {
		e := events.Event{AgencyID: "A#1", Type: events.TypeContactRequestCreated, Reference: "see/1#2", Data: []byte(c.data)}
		if got := c.f.Fits(e); got != c.wants {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestGlobs(t *testing.T) {
	for pattern, c := range map[string]struct{ fit, not string }{
		"a*":     {"a a# a/b#*", "ba"},
		"*":      {"a #", ""},
		"a?c":    {"abc aäc a#c", "ac abbc"},
		"*b*b*c": {"bbc xbxbxc bbcbbc", "bc bbcd"},
		"a[1]":   {"a[1]", "a1"},
		"a":      {"a", "A aa"},
	} {
		for _, text := range strings.Fields(c.fit) {
			if !glob(pattern, text) {
				t.Errorf("%s does not match %s", pattern, text)
			}
		}
		for _, text := range strings.Fields(c.not) {
			if glob(pattern, text) {
				t.Errorf("%s matches %s", pattern, text)
			}
		}
	}
}
