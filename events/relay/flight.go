package relay

import (
	"context"
	"crypto/rand"
	"runtime"

	"doorbell/events"

	"github.com/nats-io/nats.go"
)

// flight is an event that was sent by who had just committed it, and whose answer the lane waits for. It holds the lane's lock.
type flight struct {
	s     session
	event events.Event
	reply string // subject of the answer
}

// mostReplies is how many answers are kept that nobody waits for. The client would keep 65,536, and the room for them.
const mostReplies = 16

// mostAloft is how large a message may be that takes off: a client writes more than twice that at once, and waits.
const mostAloft = 16 << 10

// appended is called by who has just committed events of the agency, the last of which has this sequence. It waits for nothing.
func (l *lane) appended(last uint64) {
	if !l.takeOff(last) {
		poke(l.poked)
	}
}

// takeOff sends the event that was committed just now, if the lane knows where it stands and has nothing else to do. The lane stays
// locked until the event has landed. Who has committed must not wait: not for the network, so this is for a server in this process
// only, and not for one that reads nothing any more.
func (l *lane) takeOff(last uint64) bool {
	if l.r.o.Pipe == nil || l.r.o.Pipe.busy() {
		return false
	}
	select {
	case l.working <- struct{}{}:
	default:
		return false // who works on it will be poked
	}
	f, m := l.nextFlight(last)
	if f == nil {
		l.leave()
		return false
	}
	if err := l.r.o.Conn.PublishMsg(m); err != nil {
		l.doubt = true
		l.r.budget.Release(1)
		l.leave()
		return false
	}
	runtime.Gosched() // to who writes to the connection
	l.flying <- f
	return true
}

// nextFlight is what follows in the log, and its message, if it may take off; nil: the lane has to do it. It is not what was
// committed if that got another sequence meanwhile. The caller has the lock.
func (l *lane) nextFlight(last uint64) (*flight, *nats.Msg) {
	s, open := l.r.link.current()
	settled := l.manned && l.reply != "" && !l.doubt && l.place == l.cursor && l.repair.reason == "" && !l.told.above
	if !settled || !open || s.number != l.verified || s.manner == bySubject || last != l.place.Sequence+1 {
		return nil, nil
	}
	batch, err := l.r.o.Log.Read(l.agency, l.place.Sequence, 1, 1)
	if err != nil || len(batch) == 0 {
		return nil, nil // the lane will meet it itself
	}
	m := l.r.message(batch[0], s.maxMessage, false)
	setFence(m, l.filter, l.fence)
	if m.Size() > min(mostAloft, s.maxMessage) || !l.r.budget.TryAcquire(1) {
		return nil, nil
	}
	m.Reply, l.reply = l.reply, "" // each is used once
	l.flights++
	l.see(batch[0])
	return &flight{s: s, event: batch[0], reply: m.Reply}, m
}

// land waits for the answer to an event in flight. After an error nobody knows what the stream holds, as after any publish.
func (l *lane) land(ctx context.Context, f *flight) error {
	defer l.r.budget.Release(1)
	ctx, cancel := context.WithTimeout(ctx, l.r.o.AckWait)
	defer cancel()
	reply, err := l.replyTo(ctx, f)
	if err != nil {
		return err
	}
	if len(reply.Data) == 0 && reply.Header.Get("Status") == "503" {
		return nats.ErrNoResponders
	}
	place, err := l.r.placed(readAnswer(reply))
	if err != nil {
		return err
	}
	return l.taken([]events.Event{f.event}, place)
}

// replyTo waits for what the server says to an event in flight.
func (l *lane) replyTo(ctx context.Context, f *flight) (*nats.Msg, error) {
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case reply := <-l.replies:
			if reply.Subject == f.reply { // else of an earlier one, too late
				return reply, nil
			}
		}
	}
}

// lock makes everybody else wait who wants to work on the lane, until the function that it returns is called. It is no mutex,
// because a test in virtual time would stand still where one is waited for while its holder waits for a timer.
func (l *lane) lock() (unlock func()) {
	l.working <- struct{}{}
	return l.leave
}

// enter locks the lane for who runs it. What is in flight brings its lock along.
func (l *lane) enter() *flight {
	select {
	case l.working <- struct{}{}:
		return nil
	case f := <-l.flying:
		return f
	}
}

func (l *lane) leave() { <-l.working }

// man begins that events may take off, because somebody waits for them to land, and returns what ends it.
func (l *lane) man() (end func()) {
	l.r.o.Log.OnAppend(l.agency, l.appended)
	l.enter()
	l.manned = true
	l.leave()
	return func() {
		if f := l.enter(); f != nil {
			l.doubt = true
			l.r.budget.Release(1)
		}
		l.manned = false
		l.stopListening()
		l.leave()
	}
}

// listen begins to hear the answers to what takes off, and says where the next one goes: who has seen others must not know it. An
// error is that of the connection: nothing takes off then.
func (l *lane) listen() {
	if l.r.o.Pipe == nil {
		return
	}
	if l.answers == nil {
		l.inbox, l.replies = l.r.o.Conn.NewInbox(), make(chan *nats.Msg, mostReplies)
		var err error
		if l.answers, err = l.r.o.Conn.ChanSubscribe(l.inbox+".*", l.replies); err != nil {
			return
		}
	}
	l.reply = l.inbox + "." + rand.Text()
}

// stopListening ends the subscription to the answers, if there is one. The lane begins another when it works next.
func (l *lane) stopListening() {
	if l.answers != nil {
		_ = l.answers.Unsubscribe() // else the connection is gone, and with it the subscription
		l.answers, l.reply = nil, ""
	}
}
