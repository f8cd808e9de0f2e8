package relay

import (
	"context"
	"strconv"

	"doorbell/events"

	"github.com/nats-io/nats.go"
)

// manner is how a server takes events.
type manner int

const (
	inBatches manner = iota // atomic, with one fence over the agency
	singly                  // each with a fence over the agency
	bySubject               // each with a fence over its own subject, the only one that servers before batches know
)

func (f features) manner(allowed bool) manner {
	switch {
	case f.batches() && allowed:
		return inBatches
	case f.batches():
		return singly
	}
	return bySubject
}

func (m manner) String() string {
	if m == inBatches {
		return "in atomic batches"
	}
	return "one by one"
}

// send publishes messages of the agency in order and returns the place of the last one. One by one, some may have landed
// when there is an error: the look that follows finds them.
func (l *lane) send(ctx context.Context, s session, messages []*nats.Msg) (uint64, error) {
	if s.manner == inBatches {
		return l.r.publish(ctx, l.filter, l.fence, messages)
	}
	last := l.fence
	for _, m := range messages {
		filter, fence := l.filter, last
		if s.manner == bySubject {
			var err error
			if filter, fence, err = l.ownFence(ctx, m.Subject, last); err != nil {
				return 0, err
			}
		}
		place, err := l.r.publish(ctx, filter, fence, []*nats.Msg{m})
		if err != nil {
			return 0, err
		}
		if last = place; s.manner == bySubject {
			l.fences[m.Subject] = place
		}
	}
	return last, nil
}

// sendAgain publishes events that the stream held once. They stand behind later ones then.
func (l *lane) sendAgain(ctx context.Context, s session, list []events.Event) error {
	for len(list) > 0 {
		n := min(len(list), l.most)
		messages := make([]*nats.Msg, n)
		for i, e := range list[:n] {
			messages[i] = l.r.message(e, s.maxMessage, true)
		}
		place, err := l.send(ctx, s, messages)
		if err != nil {
			return err
		}
		l.fence, list = place, list[n:]
	}
	return nil
}

// ownFence is the place of the last message of one subject. It is asked for once after each look. Where there is none it would
// fence nothing: so the agency's last message has to be where we saw it, also for the others of a stream that was made anew.
func (l *lane) ownFence(ctx context.Context, subject string, last uint64) (filter string, fence uint64, err error) {
	if fence, known := l.fences[subject]; known {
		return "", fence, nil
	}
	if fence, err = l.r.placeOfLast(ctx, subject); err != nil {
		return "", 0, err
	}
	newest, err := l.r.placeOfLast(ctx, l.filter)
	if err != nil {
		return "", 0, err
	}
	if newest != last || fence > last { // it came after the look
		return "", 0, errNotSeen
	}
	l.fences[subject] = fence
	return "", fence, nil
}

// placeOfLast is where the last message of a filter stands, 0 if there is none.
func (r *Relay) placeOfLast(ctx context.Context, filter string) (uint64, error) {
	m, err := r.get(ctx, query{Last: filter})
	if err != nil || m == nil {
		return 0, err
	}
	return m.sequence, nil
}

// setFence expects that the last message of a filter, or where it is empty of the message's own subject, stands at a place.
func setFence(m *nats.Msg, filter string, fence uint64) {
	m.Header[headerFence] = []string{strconv.FormatUint(fence, 10)}
	if filter != "" {
		m.Header[headerFenceSubject] = []string{filter}
	}
}
