package cli

import (
	"context"
	"strings"
	"testing"

	"doorbell/cmd/doorbell/config"
	"doorbell/cmd/doorbell/daemon"
	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/receivers"
	"doorbell/events/forward"
)

// edited is receivers whose table changes when a test says so.
type edited struct {
	*receivers.Set
	changes chan func(changed func([]forward.Route, string))
}

func (e edited) Watch(ctx context.Context, changed func([]forward.Route, string)) {
	for {
		select {
		case <-ctx.Done():
			return
		case change := <-e.changes:
			change(changed)
		}
	}
}

// TestTheDaemonUsesATableThatChanges has a lead that no line takes, a table with a mistake, and one that is right.
func TestTheDaemonUsesATableThatChanges(t *testing.T) {
	t.Parallel()
	s, p := doorbelltest.NewScene(t, "A100", "B200"), doorbelltest.NewPlace(t)
	to := ";webhook:" + strings.TrimPrefix(p.Webhook(), "DOORBELL_WEBHOOK_URL=")
	table := edited{changes: make(chan func(func([]forward.Route, string)))}
	a, said := inProcess(t, s.With(doorbelltest.RoutesFile(t, "A100"+to)), func(o *daemon.Options) {
		table.Set = o.Receivers.(*receivers.Set)
		o.Receivers = table
	})
	endsInTime := runs(t, a)
	for _, agency := range []string{"A100", "B200"} {
		said.Await(t, `baselined: [^\n]*"agency":"`+agency)
	}
	arrives := func(agency string, want int) {
		t.Helper()
		doorbelltest.Eventually(t, "leads of "+agency, func() bool {
			n := 0
			for _, post := range p.Hooked("contact_request.created") {
				if strings.Contains(post.Body, `"agencyId":"`+agency+`"`) {
					n++
				}
			}
			return n == want
		})
	}
	needsAttention := func(why string) {
		t.Helper()
		doorbelltest.Eventually(t, "status: "+why, func() bool {
			got := doorbelltest.Run(t, s.Environ, "status", "--check")
			return got.Code == exit.CodeFailed && strings.Contains(got.Stdout, why)
		})
	}
	s.Ring(t, "A100")
	arrives("A100", 1)
	s.Ring(t, "B200")
	needsAttention("1 lead: no line of the table of routes fits")
	table.changes <- func(changed func([]forward.Route, string)) {
		changed(nil, "line 3, column 5 (min_score): is not a number")
	}
	needsAttention("line 3, column 5 (min_score): is not a number")
	c, err := config.Read(s.With(doorbelltest.RoutesFile(t, "A100"+to, "B200"+to)), config.GroupForward)
	if err != nil {
		t.Fatal(err)
	}
	other, err := receivers.Open(c, release)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	table.changes <- func(changed func([]forward.Route, string)) { changed(other.Routes(), "") }
	s.Ring(t, "B200")
	s.Ring(t, "A100")
	arrives("B200", 1)
	arrives("A100", 2)
	if got := doorbelltest.Run(t, s.Environ, "status", "--json"); strings.Contains(got.Stdout, "routesProblem") {
		t.Errorf("the table is right now: %s", got.Stdout)
	}
	endsInTime()
}
