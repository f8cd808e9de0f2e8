package metrics

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"doorbell/schemas/skiptest"
)

const (
	rules     = deploy + "prometheus/alerts.yml"
	dashboard = deploy + "grafana/doorbell.json"
)

func readAll(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// alert is a rule as far as it is looked at here: promtool reads it whole.
type alert struct{ name, text string }

func alerts(t *testing.T) (list []alert) {
	t.Helper()
	for _, part := range strings.Split(readAll(t, rules), "      - alert: ")[1:] {
		name, text, _ := strings.Cut(part, "\n")
		list = append(list, alert{name, text})
	}
	return list
}

// promised are the alerts that the runbook explains.
var promised = strings.Fields(`DoorbellDown DoorbellNotReady DoorbellAgencyHalted DoorbellAgencyStale DoorbellAgencyAlarm DoorbellEventsWait
	DoorbellUndelivered DoorbellStoreNearlyFull DoorbellLatencyHigh`)

func TestEachAlertSaysHowBadItIsAndWhatToDo(t *testing.T) {
	var names []string
	for _, a := range alerts(t) {
		names = append(names, a.name)
		for _, want := range []string{
			`\n        labels:\n          severity: (critical|warning)\n`, `\n          summary: "?\S`, `\n          description: >-\n`,
			`\n          runbook_url: deploy/runbook\.md#` + strings.ToLower(a.name) + `\n`,
			`(doorbell (status|check|plan|resume|events|approve|dlq)|systemctl|curl) ?`, // a command to type
		} {
			if !regexp.MustCompile(want).MatchString("\n" + a.text) {
				t.Errorf("%s lacks %s", a.name, want)
			}
		}
	}
	if !slices.Equal(names, promised) {
		t.Errorf("the alerts are %v", names)
	}
}

func TestEachAlertIsTestedToFire(t *testing.T) {
	text := readAll(t, deploy+"prometheus/alerts_test.yml")
	for _, name := range promised {
		if !strings.Contains(text, fmt.Sprintf(`alertname="%s"`, name)) {
			t.Errorf("no test lets %s fire", name)
		}
	}
}

// selector is a metric in an expression, and what stands in braces behind it.
var selector = regexp.MustCompile(`\b((?:doorbell|process|go)_\w+|up)\b(?:\{([^}]*)\})?`)

var matcher = regexp.MustCompile(`(\w+)\s*[=!]~?\s*"`)

// checkNames holds metrics and labels of an expression against what a daemon tells.
func checkNames(t *testing.T, where, expression string) {
	t.Helper()
	told := map[string]bool{"up": true}
	for line := range strings.Lines(scrape(t, busy())) {
		name, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		name, _, _ = strings.Cut(name, "{")
		told[name] = true
	}
	found := selector.FindAllStringSubmatch(expression, -1)
	if len(found) == 0 {
		t.Errorf("%s: no metric in %s", where, expression)
	}
	for _, m := range found {
		if !told[m[1]] {
			t.Errorf("%s: there is no metric %s", where, m[1])
		}
		for _, label := range matcher.FindAllStringSubmatch(m[2], -1) {
			if !slices.Contains(labelsOf(m[1]), label[1]) {
				t.Errorf("%s: %s has no label %s", where, m[1], label[1])
			}
		}
	}
}

// labelsOf are the labels of a metric, those of the scrape among them.
func labelsOf(name string) []string {
	labels := []string{"job", "instance"}
	for _, f := range documented() {
		switch rest, ok := strings.CutPrefix(name, f.name); {
		case ok && rest == "":
			return append(labels, f.labels...)
		case ok && f.kind == histogram && slices.Contains([]string{"_bucket", "_sum", "_count"}, rest):
			return append(append(labels, f.labels...), "le")
		}
	}
	return labels
}

func TestAlertsAskForMetricsThatThereAre(t *testing.T) {
	for _, a := range alerts(t) {
		expression, _, ok := strings.Cut(a.text, "\n        labels:")
		if !ok {
			t.Fatalf("%s: no labels", a.name)
		}
		checkNames(t, a.name, expression)
	}
}

// board is what is looked at of the dashboard.
type board struct {
	Panels []struct {
		Type    string
		Title   string
		Targets []struct {
			Expr       string
			Datasource struct{ UID string }
		}
	}
}

func readBoard(t *testing.T) (b board) {
	t.Helper()
	if err := json.Unmarshal([]byte(readAll(t, dashboard)), &b); err != nil {
		t.Fatal(err)
	}
	if len(b.Panels) < 15 {
		t.Fatalf("%d panels", len(b.Panels))
	}
	return b
}

func TestTheDashboardAsksForMetricsThatThereAre(t *testing.T) {
	for _, p := range readBoard(t).Panels {
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("%s shows nothing", p.Title)
		}
		for _, one := range p.Targets {
			checkNames(t, p.Title, one.Expr)
			if one.Datasource.UID != "${datasource}" {
				t.Errorf("%s does not ask the chosen data source", p.Title)
			}
		}
	}
}

// promtool is a judge of others. The test is skipped where it is not installed.
func promtool(t *testing.T, stdin string, args ...string) {
	t.Helper()
	program := os.Getenv("DOORBELL_TEST_PROMTOOL")
	if program == "" {
		var err error
		if program, err = exec.LookPath("promtool"); err != nil {
			skiptest.Skipf(t, "promtool is not here: set DOORBELL_TEST_PROMTOOL, or install Debian's package prometheus")
		}
	}
	c := exec.CommandContext(t.Context(), program, args...)
	c.Stdin = strings.NewReader(stdin)
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

func TestPromtoolFindsNothingWrongWithMetrics(t *testing.T) {
	var ours strings.Builder
	for line := range strings.Lines(scrape(t, busy())) {
		if strings.Contains(line, "doorbell_") {
			ours.WriteString(line)
		}
	}
	promtool(t, ours.String(), "check", "metrics")
}

func TestPromtoolReadsTheRulesAndTheExampleOfAConfiguration(t *testing.T) {
	promtool(t, "", "check", "rules", rules)
	promtool(t, "", "check", "config", deploy+"prometheus/prometheus.yml")
}

func TestEachAlertFiresWhenItShouldAndNotWhenNot(t *testing.T) {
	promtool(t, "", "test", "rules", deploy+"prometheus/alerts_test.yml")
}

func TestPromtoolReadsTheExpressionsOfTheDashboardAndTheDocumentation(t *testing.T) {
	expressions := regexp.MustCompile("(?m)^\\| [^|]+ \\| `(.+)` \\|$").FindAllStringSubmatch(readAll(t, documentation), -1)
	if len(expressions) < 5 {
		t.Fatalf("%d expressions in the documentation", len(expressions))
	}
	var list []string
	for _, e := range expressions {
		list = append(list, strings.ReplaceAll(e[1], `\|`, "|"))
		checkNames(t, "documentation", e[1])
	}
	for _, p := range readBoard(t).Panels {
		for _, one := range p.Targets {
			list = append(list, strings.NewReplacer("$__rate_interval", "5m", "$agency", "A100|B200").Replace(one.Expr))
		}
	}
	var b strings.Builder
	b.WriteString("groups:\n- name: dashboard\n  rules:\n")
	for n, e := range list {
		fmt.Fprintf(&b, "  - record: r%d\n    expr: %q\n", n, e)
	}
	path := filepath.Join(t.TempDir(), "dashboard.yml")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "", "check", "rules", path)
}
