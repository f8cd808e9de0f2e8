package natsd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// StartThree starts a cluster of three servers with JetStream on free loopback ports, for a demo:
// it has no users and no limits. It returns their URLs, separated by commas, when streams can be
// made.
func StartThree(ctx context.Context, dir string) (urls string, stop func(), err error) {
	ports, err := freePorts(6)
	if err != nil {
		return "", nil, err
	}
	url := func(port int) string { return fmt.Sprintf("nats://127.0.0.1:%d", port) }
	clients := []string{url(ports[0]), url(ports[1]), url(ports[2])}
	routes := []string{url(ports[3]), url(ports[4]), url(ports[5])}
	var all []*server.Server
	stop = func() {
		for _, s := range all {
			s.Shutdown()
			s.WaitForShutdown()
		}
	}
	for n := range clients {
		name := fmt.Sprintf("server-%d", n+1)
		s, err := server.NewServer(&server.Options{
			ServerName: name, Host: "127.0.0.1", Port: ports[n], NoSigs: true, NoLog: true,
			JetStream: true, StoreDir: filepath.Join(dir, name),
			Cluster: server.ClusterOpts{Name: "demo", Host: "127.0.0.1", Port: ports[3+n], NoAdvertise: true},
			Routes:  server.RoutesFromStr(strings.Join(routes, ",")),
		})
		if err != nil {
			stop()
			return "", nil, err
		}
		s.Start()
		all = append(all, s)
	}
	ready := func(s *server.Server) bool {
		return s.JetStreamIsLeader() && len(s.JetStreamClusterPeers()) == len(all)
	}
	for !slices.ContainsFunc(all, ready) { // servers give no signal
		select {
		case <-ctx.Done():
			stop()
			return "", nil, errors.New("the cluster does not start")
		case <-time.After(50 * time.Millisecond):
		}
	}
	return strings.Join(clients, ","), stop, nil
}

func freePorts(n int) (ports []int, err error) {
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer l.Close() // so that each gets another one
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}
