package config

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestARemovedSettingThatIsStillSetIsNamed(t *testing.T) {
	const gone = " is no longer supported: doorbells do not share agencies; unset it, and run several doorbells " +
		"with disjoint DOORBELL_AGENCIES on one stream instead"
	for _, tt := range []struct {
		environ           string
		warning, sentence string // empty: none
	}{
		{"DOORBELL_CLUSTER=leads", "", "DOORBELL_CLUSTER" + gone},
		{"DOORBELL_CLUSTER_FILE=/none", "", "DOORBELL_CLUSTER_FILE" + gone},
		{"DOORBELL_CLUSTER= ", "", ""},
		{
			"DOORBELL_EMAIL_MIN_SCORE=50", "", "DOORBELL_EMAIL_MIN_SCORE is no longer supported; unset it, write the table of routes " +
				"with the column min_score, and name it in DOORBELL_ROUTES_FILE",
		},
		{
			"DOORBELL_WEBHOOK_AGENCIES_FILE=/none", "", "DOORBELL_WEBHOOK_AGENCIES_FILE is no longer supported; unset it, " +
				"write the table of routes with the column agency, and name it in DOORBELL_ROUTES_FILE",
		},
		{
			"DOORBELL_API_KEY_NEXT=x", "", "DOORBELL_API_KEY_NEXT is no longer supported: an agency has one key; unset it, " +
				"and write the new one into the key file, which is read again within 30 s; doorbell check --api-key-file tests it",
		},
		{
			"DOORBELL_PAGE_SIZE=50", "DOORBELL_PAGE_SIZE no longer has an effect: walks ask for 100 insertions a page, " +
				"and for fewer where the API refuses that; remove it", "",
		},
		{
			"DOORBELL_CONFIRM_DISAPPEARED=3", "DOORBELL_CONFIRM_DISAPPEARED no longer has an effect: " +
				"an insertion has disappeared when two complete walks miss it; remove it", "",
		},
		{
			"DOORBELL_PEOPLE_RETENTION=24h", "DOORBELL_PEOPLE_RETENTION no longer has an effect: events hold people for as long as " +
				"DOORBELL_RETENTION keeps them; set that shorter, or DOORBELL_PEOPLE to contact or none", "",
		},
		{
			"DOORBELL_STREAM=LEADS", "", "DOORBELL_STREAM is no longer supported: the stream is named after DOORBELL_SUBJECT_PREFIX, " +
				"in capitals; unset it, and choose a prefix of that name, which consumers then subscribe to",
		},
		{
			"DOORBELL_MAX_BODY=1MiB", "DOORBELL_MAX_BODY no longer has an effect: a response may have 32 MiB, packed and unpacked; " +
				"remove it", "",
		},
		{"DOORBELL_CLUSTER_GENERATION=2", "DOORBELL_CLUSTER_GENERATION no longer has an effect; remove it", ""},
		{"DOORBELL_CLUSTER_GENERATION_FILE=/none", "DOORBELL_CLUSTER_GENERATION_FILE no longer has an effect; remove it", ""},
		{"DOORBELL_CLUSTER_GENERATION=", "", ""},
	} {
		c, err := Read([]string{tt.environ})
		if got := strings.Join(c.Warnings, "\n"); got != tt.warning {
			t.Errorf("%s: the warnings are %q, want %q", tt.environ, got, tt.warning)
		}
		var sentences []string
		if all := (*Error)(nil); errors.As(err, &all) {
			sentences = all.Sentences()
		}
		if got := strings.Join(sentences, "\n"); got != tt.sentence {
			t.Errorf("%s: the error is %q, want %q", tt.environ, got, tt.sentence)
		}
	}
	for name := range refused {
		if removed[name] != "" || slices.Contains(knownNames(), name) {
			t.Errorf("%s is a setting, or both refused and ignored", name)
		}
	}
	for name := range removed {
		if slices.Contains(knownNames(), name) {
			t.Errorf("%s is a setting", name)
		}
	}
}
