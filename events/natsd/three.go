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

// Three returns the options of a cluster of three servers with JetStream on free ports of a
// loopback address, and their URLs, separated by commas. It has no users and no limits.
func Three(host, dir string) (all [3]*server.Options, urls string, err error) {
	var clients, routes []string
	for n := range all {
		name := fmt.Sprintf("server-%d", n+1)
		o := &server.Options{
			ServerName: name, Host: host, NoSigs: true, NoLog: true, JetStream: true,
			StoreDir: filepath.Join(dir, name),
			Cluster:  server.ClusterOpts{Name: "three", Host: host, NoAdvertise: true},
		}
		for _, port := range []*int{&o.Port, &o.Cluster.Port} {
			l, err := net.Listen("tcp", host+":0")
			if err != nil {
				return all, "", err
			}
			defer l.Close() // so that each gets another one
			*port = l.Addr().(*net.TCPAddr).Port
		}
		clients = append(clients, fmt.Sprintf("nats://%s:%d", host, o.Port))
		routes = append(routes, fmt.Sprintf("nats://%s:%d", host, o.Cluster.Port))
		all[n] = o
	}
	for _, o := range all {
		o.Routes = server.RoutesFromStr(strings.Join(routes, ","))
	}
	return all, strings.Join(clients, ","), nil
}

// LeadsThree reports whether a server of Three leads the complete cluster, which can then make
// streams.
func LeadsThree(s *server.Server) bool {
	return s.JetStreamIsLeader() && len(s.JetStreamClusterPeers()) == 3
}

// StartThree starts a cluster on this machine for a demo. It returns the URLs of its servers when
// streams can be made.
func StartThree(ctx context.Context, dir string) (urls string, stop func(), err error) {
	options, urls, err := Three("127.0.0.1", dir)
	if err != nil {
		return "", nil, err
	}
	var all []*server.Server
	stop = func() {
		for _, s := range all {
			s.Shutdown()
			s.WaitForShutdown()
		}
	}
	for _, o := range options {
		s, err := server.NewServer(o)
		if err != nil {
			stop()
			return "", nil, err
		}
		s.Start()
		all = append(all, s)
	}
	for !slices.ContainsFunc(all, LeadsThree) { // servers give no signal
		select {
		case <-ctx.Done():
			stop()
			return "", nil, errors.New("the cluster does not start")
		case <-time.After(50 * time.Millisecond):
		}
	}
	return urls, stop, nil
}
