package cli

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"
)

func TestConfigShowsValuesSourcesAndNoSecret(t *testing.T) {
	file := write(t, "keys", "A100="+doorbelltest.Sentinel+"\n", 0o600)
	environ := []string{
		"DOORBELL_BASE_URL=https://api.example.com", "DOORBELL_API_KEYS_FILE=" + file, "DOORBELL_HTTP_TOKEN=" + doorbelltest.Sentinel,
		"DOORBELL_PING_URL=https://ping.example/" + doorbelltest.Sentinel, "NATS_URL=nats://" + doorbelltest.Sentinel + "@host:4222,other:4222", "NATS_USER=u", "NATS_PASSWORD=" + doorbelltest.Sentinel,
	}
	got := doorbelltest.Run(t, environ, "config")
	if got.Stderr != "" {
		t.Errorf("warned: %s", got.Stderr)
	}
	if got.Code != 0 {
		t.Fatalf("got %+v", got)
	}
	got.HoldsNoSecret(t)
	table := strings.Join(strings.Fields(got.Stdout), " ")
	fingerprint := config.NewSecret(doorbelltest.Sentinel).Fingerprint()
	for _, want := range []string{
		"DOORBELL_BASE_URL https://api.example.com environment", "DOORBELL_POLL_INTERVAL 30s default",
		"DOORBELL_HTTP_TOKEN " + fingerprint + " environment", "DOORBELL_API_KEYS A100=" + fingerprint + " file " + file,
		"NATS_URL nats://***@host:4222,other:4222 environment", "DOORBELL_AGENCIES - default",
	} {
		if !strings.Contains(table, want) {
			t.Errorf("%q is not in\n%s", want, got.Stdout)
		}
	}
	got = doorbelltest.Run(t, environ, "config", "--json")
	got.HoldsNoSecret(t)
	var settings []config.Setting
	if err := json.Unmarshal([]byte(got.Stdout), &settings); err != nil || len(settings) < 40 {
		t.Errorf("%d settings, %v", len(settings), err)
	}
}

func TestUsageErrorsExitWithTwo(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"", "dance", "events", "resume", "version --yaml", "config more", "--json", "events tail --all --since 2h",
		"events tail --since yesterday", "events tail --since=-2h", "demo --for 20", "run \x1b[2J", "run --json",
		"forward fax", "forward slack --name a/b", "forward slack --json", "dlq retry", "dlq retry x", "dlq drop 1 --all",
		"replay --to slack --job x",
	} {
		args := strings.Fields(line)
		got := doorbelltest.Run(t, nil, args...)
		_, hint, _ := strings.Cut(got.Stderr, "\n  doorbell ")
		if got.Code != exit.CodeUsage || !strings.HasPrefix(got.Stderr, "doorbell: ") || !strings.Contains(hint, "--help") || got.Stdout != "" {
			t.Errorf("%q: got %+v", args, got)
		}
		if strings.ContainsAny(got.Stderr, "\x1b") {
			t.Errorf("%q: the terminal would obey what stands in the error", args)
		}
	}
}

func TestEveryCommandHasHelpWithAnExample(t *testing.T) {
	t.Parallel()
	top := doorbelltest.Run(t, nil, "--help")
	for _, command := range commands(t) {
		got := doorbelltest.Run(t, nil, append(strings.Fields(command), "--help")...)
		_, example, ok := strings.Cut(got.Stdout, "Example")
		if got.Code != 0 || got.Stderr != "" || !ok || !strings.Contains(example, "doorbell "+command) {
			t.Errorf("%s: got %+v", command, got)
		}
		if first, _, _ := strings.Cut(command, " "); strings.Count(top.Stdout, "\n  "+first+" ") != 1 {
			t.Errorf("--help lists %s not once:\n%s", first, top.Stdout)
		}
	}
	for name, title := range groups {
		if name != "commands" && !strings.Contains(top.Stdout, "\n"+title+"\n") {
			t.Errorf("no command is %q", title)
		}
	}
}

// commands are all commands of the grammar, as they are typed, in their order.
func commands(t *testing.T) (all []string) {
	t.Helper()
	parser, err := newParser()
	if err != nil {
		t.Fatal(err)
	}
	for _, leaf := range parser.Model.Leaves(true) {
		all = append(all, leaf.Path())
	}
	return all
}

func TestAMomentIsATimeOrADurationAgo(t *testing.T) {
	now := time.Now()
	for text, want := range map[string]time.Time{"2h": now.Add(-2 * time.Hour), "5d": now.Add(-5 * 24 * time.Hour), "2026-11-20T09:00:00+01:00": time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC)} {
		var m Moment
		if err := m.UnmarshalText([]byte(text)); err != nil || time.Time(m).Sub(want).Abs() > time.Minute {
			t.Errorf("%s: %v, %v", text, time.Time(m), err)
		}
	}
	for _, text := range []string{"", "d", "-1d", "0d", "70000d", "1.5d", "2", "2x"} {
		if err := new(Moment).UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is a moment", text)
		}
	}
}

func TestAnEmptyValueIsNotTakenForNone(t *testing.T) {
	t.Parallel()
	environ := logged(t, 3, false)
	for args, sentence := range map[string]string{
		"events ls --agency=":         "--agency: is empty",
		"events ls --since=":          "--since: ",
		"replay --insertion= --to -":  "--insertion: is empty",
		"resume A100 --insertion=":    "--insertion: is empty",
		"sandbox --agencies A100,,B2": "--agencies: ",
	} {
		got := doorbelltest.Run(t, environ, strings.Fields(args)...)
		if got.Code != exit.CodeUsage || got.Stdout != "" || strings.Count(got.Stderr, "doorbell: ") != 1 {
			t.Errorf("%s: %+v", args, got)
		}
		doorbelltest.Has(t, got.Stderr, sentence)
	}
	for _, args := range [][]string{{"backup", ""}} {
		if got := doorbelltest.Run(t, environ, args...); got.Code != exit.CodeUsage {
			t.Errorf("%v: %+v", args, got)
		}
	}
}
