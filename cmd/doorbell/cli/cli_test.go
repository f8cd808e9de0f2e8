package cli

import (
	"strings"
	"testing"

	"doorbell/cmd/doorbell/doorbelltest"
)

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
