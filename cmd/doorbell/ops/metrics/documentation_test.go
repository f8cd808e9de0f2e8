package metrics

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"doorbell/poller"
)

var update = flag.Bool("update", false, "write the table of metrics into deploy/metrics.md")

const (
	deploy        = "../../../../deploy/"
	documentation = deploy + "metrics.md"
	from, to      = "<!-- metrics -->\n", "<!-- /metrics -->"
)

// table is the documentation of each metric.
func table() string {
	var b strings.Builder
	b.WriteString("\n| metric | type | labels | meaning |\n|---|---|---|---|\n")
	for _, f := range documented() {
		labels := "–"
		if len(f.labels) > 0 {
			labels = "`" + strings.Join(f.labels, "` `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.name, f.kindName(), labels, strings.ReplaceAll(f.help, "|", `\|`))
	}
	return b.String() + "\n"
}

// histogram is a kind that no family of a status has.
const histogram kind = -1

func (f *family) kindName() string {
	return map[kind]string{gauge: "gauge", counter: "counter", histogram: "histogram"}[f.kind]
}

// documented are the families and what the poller counts.
func documented() []*family {
	all := slices.Clone(families)
	descs := make(chan *prometheus.Desc, 10)
	poller.NewMetrics().Describe(descs)
	close(descs)
	form := regexp.MustCompile(`^Desc\{fqName: "(.*)", help: "(.*?)", (?:unit: ".*", )?constLabels: \{\}, variableLabels: \{(.*)\}\}$`)
	for d := range descs {
		m := form.FindStringSubmatch(d.String())
		f := &family{name: m[1], kind: histogram, help: m[2], labels: strings.Split(m[3], ",")}
		if strings.HasSuffix(f.name, "_total") {
			f.kind = counter
		}
		all = append(all, f)
	}
	return all
}

func TestTheDocumentationSaysWhatEachMetricMeans(t *testing.T) {
	text, err := os.ReadFile(documentation)
	must(t, err)
	before, rest, ok := strings.Cut(string(text), from)
	_, after, ok2 := strings.Cut(rest, to)
	if !ok || !ok2 {
		t.Fatal("deploy/metrics.md has no place for the table")
	}
	want := before + from + table() + to + after
	if *update {
		must(t, os.WriteFile(documentation, []byte(want), 0o644))
	} else if string(text) != want {
		t.Error("deploy/metrics.md is not of this version; go test ./cmd/doorbell/ops/metrics -update writes it")
	}
	told := scrape(t, busy())
	for _, f := range documented() {
		if !strings.Contains(told, fmt.Sprintf("# HELP %s %s\n# TYPE %s %s\n", f.name, f.help, f.name, f.kindName())) {
			t.Errorf("%s is exported with another help or type", f.name)
		}
	}
}
