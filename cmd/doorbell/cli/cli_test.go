package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"
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
			t.Errorf("--help does not list %s exactly once:\n%s", first, top.Stdout)
		}
	}
	for name, title := range groups {
		if name != "commands" && !strings.Contains(top.Stdout, "\n"+title+"\n") {
			t.Errorf("%q is not a command", title)
		}
	}
}

// commands are all commands of the grammar, as they are typed, in their order.
func commands(t *testing.T) (all []string) {
	t.Helper()
	parser, err := newParser()
	must(t, err)
	for _, leaf := range parser.Model.Leaves(true) {
		all = append(all, leaf.Path())
	}
	return all
}

func TestACommandThatIsEndedByASignalHasNotFailed(t *testing.T) {
	t.Parallel()
	ctx, end := context.WithCancel(t.Context())
	end()
	var said bytes.Buffer
	if code := Main(ctx, []string{"events", "tail"}, nil, &said, &said, doorbelltest.NewScene(t, "A100").Environ); code != exit.Done || said.Len() > 0 {
		t.Errorf("exit code %d, and it says: %s", code, &said)
	}
	if code := Main(ctx, []string{"events", "ls"}, nil, &said, &said, logged(t, 1, true)); code != exit.Done {
		t.Errorf("exit code %d, and it says: %s", code, &said)
	}
}

// ending ends a context when something is printed.
type ending struct {
	bytes.Buffer
	end func()
}

func (e *ending) Write(b []byte) (int, error) {
	e.end()
	return e.Buffer.Write(b)
}

// TestASignalDoesNotInterruptAnErasureWithoutADaemon sends it when the command has printed whom it erases.
func TestASignalDoesNotInterruptAnErasureWithoutADaemon(t *testing.T) {
	t.Parallel()
	environ := logged(t, 1, true)
	ctx, end := context.WithCancel(t.Context())
	said, failed := &ending{end: end}, &bytes.Buffer{}
	code := Main(ctx, []string{"forget", "--request", "id-0", "--yes"}, nil, said, failed, environ)
	if ctx.Err() == nil || code != exit.Done || !strings.Contains(said.String(), "Receipt: ") {
		t.Errorf("exit code %d, and it says: %s%s", code, said, failed)
	}
}

// running starts `doorbell run`, and returns it with a subscriber once all agencies of the scene are
// learned, and the URL of its NATS.
func running(t *testing.T, s doorbelltest.Scene, more ...string) (*doorbelltest.Child, *doorbelltest.Subscriber, string) {
	t.Helper()
	d := doorbelltest.Launch(t, s.With(more...), "run")
	url := doorbelltest.NatsURL(t, s.Dir)
	sub := doorbelltest.SubscribeTo(t, url)
	sub.Baselined(t, s.Model.Truth().Agencies...)
	return d, sub, url
}
