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
	ruleTests = deploy + "prometheus/alerts_test.yml"
	dashboard = deploy + "grafana/doorbell.json"
)

func readAll(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	return string(text)
}

// alerts are the rules by their names, as far as they are looked at here: promtool reads them whole.
func alerts(t *testing.T) (names, texts []string) {
	t.Helper()
	for _, part := range strings.Split(readAll(t, rules), "      - alert: ")[1:] {
		name, text, _ := strings.Cut(part, "\n")
		names, texts = append(names, name), append(texts, "\n"+text)
	}
	if len(names) == 0 {
		t.Fatal("no alert is found")
	}
	return names, texts
}

func TestEachAlertHasASeverityAndARemedyAndIsTestedToFire(t *testing.T) {
	names, texts := alerts(t)
	tests := readAll(t, ruleTests)
	for n, name := range names {
		for _, want := range []string{
			`\n        labels:\n          severity: (critical|warning)\n`, `\n          summary: "?\S`,
			`\n          description: >-\n`,
			`(doorbell (status|check|resume|events|approve|dlq)|systemctl|curl) ?`, // a command to type
		} {
			if !regexp.MustCompile(want).MatchString(texts[n]) {
				t.Errorf("%s lacks %s", name, want)
			}
		}
		if !strings.Contains(tests, fmt.Sprintf(`alertname="%s"`, name)) {
			t.Errorf("no test makes %s fire", name)
		}
	}
}

// panels returns the expressions of the dashboard.
func panels(t *testing.T) (expressions []string) {
	t.Helper()
	var board struct {
		Panels []struct {
			Type, Title string
			Targets     []struct {
				Expr       string
				Datasource struct{ UID string }
			}
		}
	}
	must(t, json.Unmarshal([]byte(readAll(t, dashboard)), &board))
	for _, p := range board.Panels {
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("%s shows nothing", p.Title)
		}
		for _, one := range p.Targets {
			if expressions = append(expressions, one.Expr); one.Datasource.UID != "${datasource}" {
				t.Errorf("%s does not query the chosen data source", p.Title)
			}
		}
	}
	return expressions
}

// examples returns the expressions of the documentation.
func examples(t *testing.T) (expressions []string) {
	t.Helper()
	row := regexp.MustCompile("(?m)^\\| [^|]+ \\| `(.+)` \\|$")
	for _, m := range row.FindAllStringSubmatch(readAll(t, documentation), -1) {
		expressions = append(expressions, strings.ReplaceAll(m[1], `\|`, "|"))
	}
	return expressions
}

// labelsOf are the labels of each metric, those of the scrape among them.
func labelsOf() map[string][]string {
	all := map[string][]string{"up": {"job"}}
	for _, of := range []string{"process_cpu_seconds_total", "process_resident_memory_bytes", "go_memstats_heap_inuse_bytes"} {
		all[of] = []string{"job", "instance"}
	}
	for _, f := range documented() {
		labels := append(slices.Clone(f.labels), "job", "instance", "le")
		all[f.name] = labels
		for _, part := range []string{"_bucket", "_sum", "_count"} {
			if f.kind == histogram {
				all[f.name+part] = labels
			}
		}
	}
	return all
}

func TestAlertsDashboardAndDocumentationUseMetricsThatExist(t *testing.T) {
	_, expressions := alerts(t)
	for n := range expressions {
		expressions[n], _, _ = strings.Cut(expressions[n], "\n        labels:")
	}
	dashboard, documented := panels(t), examples(t)
	if len(dashboard) < 15 || len(documented) < 5 {
		t.Fatalf("%d expressions of the dashboard, %d of the documentation", len(dashboard), len(documented))
	}
	selector := regexp.MustCompile(`\b((?:doorbell|process|go)_\w+|up)\b(?:\{([^}]*)\})?`)
	matcher := regexp.MustCompile(`(\w+)\s*[=!]~?\s*"`)
	labels := labelsOf()
	for _, e := range slices.Concat(expressions, dashboard, documented) {
		found := selector.FindAllStringSubmatch(e, -1)
		if len(found) == 0 {
			t.Errorf("no metric in %s", e)
		}
		for _, m := range found {
			known, there := labels[m[1]]
			if !there {
				t.Errorf("there is no metric %s", m[1])
			}
			for _, label := range matcher.FindAllStringSubmatch(m[2], -1) {
				if !slices.Contains(known, label[1]) {
					t.Errorf("%s has no label %s", m[1], label[1])
				}
			}
		}
	}
}

// TestPromtoolFindsNothingWrong has a third-party judge read everything. It is skipped where promtool is
// not installed.
func TestPromtoolFindsNothingWrong(t *testing.T) {
	program := os.Getenv("DOORBELL_TEST_PROMTOOL")
	if program == "" {
		var err error
		if program, err = exec.LookPath("promtool"); err != nil {
			skiptest.Skipf(t, "promtool is not here: set DOORBELL_TEST_PROMTOOL, or install Debian's package prometheus")
		}
	}
	var asked strings.Builder
	asked.WriteString("groups:\n- name: dashboard\n  rules:\n")
	variables := strings.NewReplacer("$__rate_interval", "5m", "$agency", "A100|B200")
	for n, e := range append(examples(t), panels(t)...) {
		fmt.Fprintf(&asked, "  - record: r%d\n    expr: %q\n", n, variables.Replace(e))
	}
	path := filepath.Join(t.TempDir(), "dashboard.yml")
	must(t, os.WriteFile(path, []byte(asked.String()), 0o600))
	ours := regexp.MustCompile("(?m)^.*doorbell_.*\n").FindAllString(scrape(t, busy()), -1)
	for _, args := range []string{
		"check metrics", "check rules " + rules, "check config " + deploy + "prometheus/prometheus.yml",
		"test rules " + ruleTests, "check rules " + path,
	} {
		c := exec.CommandContext(t.Context(), program, strings.Fields(args)...)
		c.Stdin = strings.NewReader(strings.Join(ours, ""))
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", args, err, out)
		}
	}
}
