package cli

import (
	"cmp"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/poller/sandbox"
)

func TestTheHelpOfTheSandboxListsEveryScenario(t *testing.T) {
	got := doorbelltest.Run(t, nil, "sandbox", "--help")
	words := strings.Join(strings.Fields(got.Stdout), " ")
	for _, s := range sandbox.Scenarios() {
		if n := strings.Count(got.Stdout, "    "+s.Name+" "); n != 1 || !strings.Contains(words, s.Description) {
			t.Errorf("%s is listed %d times", s.Name, n)
		}
	}
}

// askWith asks the sandbox for a list of insertions.
func askWith(t *testing.T, url, key, agency string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/insertion-funnel/integration/"+agency+"/insertions", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "ApiKey "+key)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

func TestEveryScenarioStartsAndBeginsWithTheFirstRequest(t *testing.T) {
	t.Parallel()
	for _, s := range sandbox.Scenarios() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			c := doorbelltest.Launch(t, nil, "sandbox", "--scenario", s.Name, "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0")
			found := c.Stdout.Await(t, `(?s)API is at (http://\S+), for agencies ([^.]+)\..*DOORBELL_API_KEY=(\S+).*Expected outcome.*curl (http://\S+)/truth`)
			if told := strings.Join(strings.Fields(c.Stdout.String()), " "); !strings.Contains(told, s.Description) || !strings.Contains(told, s.Outcome) || strings.Contains(told, "begins.") {
				t.Errorf("it told:\n%s", told)
			}
			var truth sandbox.Truth
			doorbelltest.Api{Control: found[4]}.Read(t, "/truth", &truth)
			if got := strings.Join(truth.Agencies, ", "); got != found[2] || len(truth.Insertions) == 0 {
				t.Errorf("agencies %s, %d insertions", got, len(truth.Insertions))
			}
			if s.Name != "slow-and-flaky" { // whose first answer may be any
				if status, body := askWith(t, found[1], found[3], s.Agencies[0]); status != http.StatusOK || !strings.Contains(body, "propertyReferenceId") {
					t.Errorf("%d %s", status, body)
				}
				c.Stdout.Await(t, "scenario "+s.Name+" begins")
			}
		})
	}
}

func TestWhatTheSandboxSaysToTypeIsTaken(t *testing.T) {
	t.Parallel()
	for _, insertions := range []string{"12", "0"} {
		t.Run(insertions+" insertions", func(t *testing.T) {
			t.Parallel()
			typeWhatTheSandboxSays(t, "--insertions", insertions, "--changes-per-minute", "0")
		})
	}
}

func typeWhatTheSandboxSays(t *testing.T, flags ...string) {
	c := doorbelltest.Launch(t, nil, append([]string{"sandbox", "--listen", "127.0.0.1:0", "--control", "127.0.0.1:0"}, flags...)...)
	found := c.Stdout.Await(t, `(?s)API is at (http://\S+), for.*DOORBELL_API_KEY=(\S+).*Ctrl-C to end it`)
	lines := regexp.MustCompile(`(?m)^  curl (http://[^/ ]+/(\S+)) -d '(.*)'$`).FindAllStringSubmatch(c.Stdout.String(), -1)
	if len(lines) != 6 {
		t.Fatalf("%d commands are found in\n%s", len(lines), c.Stdout.String())
	}
	if !strings.Contains(c.Stdout.String(), "until you type: ./doorbell resume A100\n") {
		t.Error("it does not say how doorbell asks again once the key is given back")
	}
	want := map[string]int{"keys/unlink": http.StatusForbidden}
	for _, line := range lines {
		answer, err := http.Post(line[1], "application/x-www-form-urlencoded", strings.NewReader(line[3]))
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != http.StatusOK {
			t.Errorf("%s: %d", line[0], answer.StatusCode)
		}
		if status, _ := askWith(t, found[1], found[2], "A100"); status != cmp.Or(want[line[2]], http.StatusOK) {
			t.Errorf("after %s the list is answered with %d", line[2], status)
		}
	}
}
