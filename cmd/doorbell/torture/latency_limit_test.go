package torture

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/events/natsd"
	"doorbell/events/relay"
	"doorbell/store"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The test binary is a process that does nothing but commit and publish where this names its data directory.
const latencyLimit = "TEST_LATENCY_LIMIT"

// headerBegan tells when it began, in nanoseconds since 1970.
const headerBegan = "Began"

// latencyFloor is that process as the benchmark sees it.
type latencyFloor struct {
	in      io.Writer
	arrived <-chan arrivedAt
}

func startLimit(b *testing.B) *latencyFloor {
	b.Helper()
	dir := doorbelltest.ShortDir(b)
	prepare(b, dir, "http://127.0.0.1:1", latencyStore)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), latencyLimit+"="+dir)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal("the limit did not start")
	}
	return &latencyFloor{in, consume(b, strings.TrimSpace(url), "listings.>")}
}

// once lets it commit and publish a message, and says how long that took to its arrival.
func (l *latencyFloor) once(b *testing.B, m jetstream.Msg) time.Duration {
	b.Helper()
	if err := json.NewEncoder(l.in).Encode(nats.Msg{Subject: m.Subject(), Header: m.Headers(), Data: m.Data()}); err != nil {
		b.Fatal(err)
	}
	a := <-l.arrived
	began, err := strconv.ParseInt(a.m.Headers().Get(headerBegan), 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return a.at.Sub(time.Unix(0, began))
}

// commitAndPublish does so with every message that it reads.
func commitAndPublish(dir string) error {
	s, err := store.Open(store.Options{Dir: dir})
	if err != nil {
		return err
	}
	server, err := natsd.Start(context.Background(), natsd.Options{StoreDir: dir + "/jetstream", Listen: "127.0.0.1:0"})
	if err != nil {
		return err
	}
	nc, err := server.Connect("limit")
	if err != nil {
		return err
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return err
	}
	o := relay.Options{Stream: "LISTINGS", Prefix: "listings", StoreID: s.ID(), MaxAge: 720 * time.Hour, MaxBytes: 4 << 30}
	if _, err := js.CreateStream(context.Background(), o.StreamConfig()); err != nil {
		return err
	}
	fmt.Println(server.ClientURL())
	messages := json.NewDecoder(os.Stdin)
	for n := 0; ; n++ {
		var m nats.Msg
		if err := messages.Decode(&m); err != nil {
			return err
		}
		for name := range m.Header {
			if strings.HasPrefix(name, "Nats-Expected-") || strings.HasPrefix(name, "Nats-Batch-") { // of another stream
				delete(m.Header, name)
			}
		}
		m.Header.Set(headerBegan, strconv.FormatInt(time.Now().UnixNano(), 10))
		if err := s.Update(func(tx *store.Tx) error { return tx.PutRecord("B200", strconv.Itoa(n), m.Data) }); err != nil {
			return err
		}
		if _, err := js.PublishMsg(context.Background(), &m); err != nil {
			return err
		}
	}
}
