package forward

import (
	"context"
	"errors"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// lane brings one kind of events to one destination, one after the other.
type lane struct {
	f        *Forwarder
	key      string
	kind     Kind
	dest     *destination
	filters  []Filter
	consumer string
	status   board

	started time.Time // when the lane began to look for its consumer
	late    bool      // it was not there at once
	usedAt  time.Time // when somebody else was seen to use the consumer, and how far it was then
	usedTo  uint64
	early   bool                 // the consumer begins earlier than the lane did
	tried   []uint64             // the places of what was tried last, as one
	singly  uint64               // up to this place there are no digests: one was refused
	causes  map[string]time.Time // when halts of a cause were told last
	said    string               // the problem that the log has
	unsaved bool                 // the log has it that the state cannot be written
	strange bool                 // the log has it that there are foreign messages
}

func newLane(f *Forwarder, d *destination, k Kind) *lane {
	l := &lane{f: f, key: laneKey(d.name, k), kind: k, dest: d, causes: map[string]time.Time{}}
	l.status.s = LaneStatus{Destination: d.name, Kind: k, Turned: time.Now()}
	return l
}

// remembered reads or changes what is remembered of the lane.
func (l *lane) remembered(do func(*laneState)) {
	l.f.state.change(func(m *memory) { do(m.Lanes[l.key]) })
}

// save writes the state. The server knows the lane's position too: a state that is not written is no reason to stop.
func (l *lane) save() {
	err := l.f.state.save()
	if err != nil && !l.unsaved {
		l.f.o.Log.Error("the forwarder cannot write its state: a crash may double messages", "forwarder", l.f.o.Name, "err", err.Error())
	}
	l.unsaved = err != nil
}

// run pulls until ctx ends. Whatever fails on the side of NATS is waited for.
func (l *lane) run(ctx context.Context) error {
	retry := backoff.NewExponentialBackOff(backoff.WithInitialInterval(200*time.Millisecond), backoff.WithMultiplier(2),
		backoff.WithMaxInterval(10*time.Second), backoff.WithMaxElapsedTime(0))
	l.started = time.Now()
	for {
		l.turn()
		c, err := l.attach(ctx)
		if err == nil {
			l.trouble("")
			retry.Reset()
			err = l.pull(ctx, c)
		}
		switch {
		case ctx.Err() != nil:
			l.save()
			return nil
		case l.f.o.Conn.IsClosed():
			return ErrClosed
		case errors.Is(err, errCut):
			return err
		}
		l.late = true
		l.trouble(err.Error())
		if !sleep(ctx, retry.NextBackOff()) {
			return nil
		}
	}
}

// turn notes that the lane is not stuck.
func (l *lane) turn() { l.status.write(func(s *LaneStatus) { s.Turned = time.Now() }) }

// trouble says why nothing comes from NATS, once.
func (l *lane) trouble(text string) {
	l.status.write(func(s *LaneStatus) { s.Problem = text })
	if text != "" && text != l.said {
		l.f.o.Log.Warn("the forwarder waits", "forwarder", l.f.o.Name, "lane", l.key, "err", text)
	} else if text == "" && l.said != "" {
		l.f.o.Log.Info("the forwarder goes on", "forwarder", l.f.o.Name, "lane", l.key)
	}
	l.said = text
}

// pull takes one message after the other in hand until one cannot be had.
func (l *lane) pull(ctx context.Context, c jetstream.Consumer) error {
	for ctx.Err() == nil {
		l.turn()
		if l.dest.off.Load() {
			l.rest(ctx, c)
			continue
		}
		m, err := c.Next(jetstream.FetchContext(ctx))
		if errors.Is(err, nats.ErrTimeout) { // nothing came
			if l.status.read().Attempts > 0 { // one waits for its next try, and others behind it
				l.count(ctx, c)
			}
			continue
		}
		if err != nil {
			return err
		}
		if err := l.handle(ctx, m); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// rest is what a lane does that may not send: it tells what waits.
func (l *lane) rest(ctx context.Context, c jetstream.Consumer) {
	l.status.write(func(s *LaneStatus) { s.Off = true })
	l.count(ctx, c)
	sleep(ctx, time.Minute)
}

// count asks how many wait.
func (l *lane) count(ctx context.Context, c jetstream.Consumer) {
	if info, err := c.Info(ctx); err == nil {
		l.status.write(func(s *LaneStatus) { s.Waiting = info.NumPending + uint64(info.NumAckPending) })
	}
}

// holdOn tells the server that a message is being worked on, until the returned function is called.
func (l *lane) holdOn(m jetstream.Msg) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for sleep(ctx, l.f.o.AckWait/3) {
			_ = m.InProgress() // a connection that is away: the server delivers again, and the mark knows
		}
	}()
	return func() { cancel(); <-ended }
}
