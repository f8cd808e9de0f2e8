package relay

import (
	"testing"

	"doorbell/events/natsd/natsdtest"
)

// TestAClaimThatReadsFromAReplicaThatIsBehindHasEveryRow stops a server that does not lead while the owner writes, and lets another doorbell
// claim the agency as soon as it runs again: what the claim loads may come from that one.
func TestAClaimThatReadsFromAReplicaThatIsBehindHasEveryRow(t *testing.T) {
	t.Parallel()
	c := natsdtest.Start(t)
	members := []*member{join(t, c, "one"), join(t, c, "two")}
	api := shown{}
	members[0].claim("A100")
	owner, next := members[0], members[1]
	for n := range 3 {
		lagging := (c.Leader("LISTINGS") + 1 + n%2) % 3
		c.Stop(lagging)
		api.write("A100", 200)
		owner.poll(api, "A100")
		owner.drained("A100")
		c.Start(lagging)
		for range 20 { // while it catches up
			next.claim("A100")
			if got, want := len(next.known("A100")), len(api["A100"]); got != want {
				t.Fatalf("in round %d the next owner knows %d contact requests of %d", n, got, want)
			}
			owner, next = next, owner
		}
		api.wantAll(t, owner.js, "A100")
	}
}
