package cli

import (
	"strings"
	"testing"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/options"
	"doorbell/events"
)

// watched says who is watched with which key: "A100=key B200=key".
func watched(c *config.Config) string {
	var all []string
	for _, a := range c.Agencies {
		all = append(all, a.ID+"="+a.Key.Reveal())
	}
	return strings.Join(all, " ")
}

func TestKeysByAgency(t *testing.T) {
	for _, tt := range []struct{ name, environ, want string }{
		{"one for all", "AGENCIES=A100,B200;API_KEY=k", "A100=k B200=k"},
		{"each its own", "API_KEYS=A100=a,B200=b", "A100=a B200=b"},
		{"their order", "API_KEYS=Z9=z,A100=a", "Z9=z A100=a"},
		{"everybody else", "AGENCIES=A100,B200,C300;API_KEYS=B200=b,*=k", "A100=k B200=b C300=k"},
		{"a value alone", "AGENCIES=A100,B200;API_KEYS=k", "A100=k B200=k"},
		{"own before shared", "AGENCIES=A100,B200;API_KEY=k;API_KEYS=B200=b", "A100=k B200=b"},
		{"equals sign in a key", "API_KEYS=A100=a==", "A100=a=="},
		{"equals signs of a key for all", "AGENCIES=A100;API_KEY=B200==", "A100=B200=="},
		{"a key like a name", "AGENCIES=A100;API_KEY=apikey-1_key==", "A100=apikey-1_key=="},
		{"a key like a scheme", "AGENCIES=A100;API_KEY=Bearer-key:token", "A100=Bearer-key:token"},
		{"colon in a key", "AGENCIES=A100;API_KEYS=ab:k", "A100=ab:k"},
		{"a key like another agency and its key", "AGENCIES=A100;API_KEY=K7:k", "A100=K7:k"},
		{"blanks around", "API_KEYS= A100 = a , B200 = b ,", "A100=a B200=b"},
	} {
		environ := []string{"DOORBELL_BASE_URL=https://api.example.com"}
		for entry := range strings.SplitSeq(tt.environ, ";") {
			environ = append(environ, "DOORBELL_"+entry)
		}
		if got := watched(mustRead(t, environ)); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

func TestAFileOfKeysHasOneALine(t *testing.T) {
	file := write(t, "keys", "# the keys of spring\r\nA100=a\r\n\r\n  B200 = b\n#C300=c\n", 0o600)
	c := mustRead(t, []string{"DOORBELL_BASE_URL=https://api.example.com", "DOORBELL_API_KEYS_FILE=" + file})
	if got, want := watched(c), "A100=a B200=b"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func TestPeopleByAgencyComeFromAFileToo(t *testing.T) {
	file := write(t, "people", "# who says what\nA100=none\nB200=contact\n", 0o600)
	c := mustRead(t, doorbelltest.Fit("DOORBELL_PEOPLE_FILE="+file))
	got := options.Poller(c, release).Agencies
	if len(got) != 2 || got[0].People != events.PeopleNone || got[1].People != events.PeopleContact || len(c.Warnings) > 0 {
		t.Errorf("of people is said %s, with the warnings %q", c.Poll.People.Masked(), c.Warnings)
	}
}

func TestAKeyThatNobodyUsesIsWarnedAbout(t *testing.T) {
	c := mustRead(t, doorbelltest.Fit("DOORBELL_API_KEYS=C300="+doorbelltest.Sentinel))
	if len(c.Warnings) != 1 || !strings.Contains(c.Warnings[0], "C300") || strings.Contains(c.Warnings[0], doorbelltest.Sentinel) {
		t.Errorf("warned: %q", c.Warnings)
	}
}

func TestManyMissingKeysAreOneSentence(t *testing.T) {
	ids := strings.Repeat("A1,", 1)
	for i := range 30 {
		ids += "B" + string(rune('A'+i%26)) + strings.Repeat("x", i) + ","
	}
	_, err := config.Read(doorbelltest.Fit("DOORBELL_API_KEY=", "DOORBELL_API_KEYS=A1=key", "DOORBELL_AGENCIES="+strings.TrimSuffix(ids, ",")), config.GroupPoll)
	if err == nil || strings.Count(err.Error(), "\n") != 0 || !strings.Contains(err.Error(), "and 20 more") {
		t.Errorf("got %v", err)
	}
}

func FuzzKeysByAgencyQuoteNothing(f *testing.F) {
	for _, seed := range []string{"k", "A100=k", "A100=k|n,B200=k", "*=k", "=", "a=|n", ",,", "\n#", "A100==", "\x00=\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var p config.PerAgency
		if err := p.Decode(text); err != nil {
			return
		}
		for _, agency := range p.Named {
			if config.CheckAgencyID(agency) != nil || p.Of(agency).IsZero() {
				t.Errorf("agency %q was let through", agency)
			}
		}
	})
}
