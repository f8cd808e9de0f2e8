package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"doorbell/cmd/doorbell/exit"
	"doorbell/cmd/doorbell/ops"
	"doorbell/events/natsd/natsdtest"
)

// cluster runs two members on three servers, of which the first owns both agencies: it gives none up for one who has just come.
func cluster(t *testing.T) (s scene, one, two []string) {
	t.Helper()
	servers := natsdtest.Start(t)
	s = newScene(t, "A100", "B200")
	one = s.with("NATS_URL="+servers.URL(), "DOORBELL_NATS_LISTEN=off", "DOORBELL_CLUSTER=east")
	two = append(slices.Clone(one), "DOORBELL_DATA_DIR="+shortDir(t))
	for n, environ := range [][]string{one, two} {
		launch(t, environ, "run")
		eventually(t, "it is a member, and all agencies have an owner", func() bool {
			c, ok := clusterOf(t, environ)
			return ok && c.Problem == "" && len(c.Members) == n+1 && len(c.Agencies) == 2 && c.Agencies[0].Owner != "" && c.Agencies[1].Owner != ""
		})
	}
	return s, one, two
}

// clusterOf is what `doorbell cluster --json` prints, once a daemon runs.
func clusterOf(t *testing.T, environ []string) (c ops.ClusterStatus, ok bool) {
	t.Helper()
	r := run(t, environ, "cluster", "--json")
	return c, r.code == exit.Done && json.Unmarshal([]byte(r.stdout), &c) == nil
}

func TestEachMemberOfAClusterPrintsWhoOwnsWhat(t *testing.T) {
	t.Parallel()
	_, one, two := cluster(t)
	first, _ := clusterOf(t, one)
	second, _ := clusterOf(t, two)
	if second.Agencies[0].Owner != first.Member || second.Agencies[1].Owner != first.Member || second.Member == first.Member || second.Agencies[0].Epoch != 1 {
		t.Errorf("the second says %+v", second)
	}
	text := run(t, two, "cluster").stdout
	has(t, text, "Cluster east: 2 members", second.Member+" (this one)", "A100    "+first.Member+" on ", "MEMBER", "EPOCH")
	text = run(t, two, "status").stdout
	has(t, text, "A100    polled by "+first.Member, "polls 0 of 2 agencies")
	if strings.Contains(text, "waits for the stream") {
		t.Errorf("what another member polls waits for nothing:\n%s", text)
	}
}
