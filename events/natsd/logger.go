package natsd

import (
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// logger hands the server's lines to slog. Start-up chatter is debug; the rare warnings about damaged files must not
// be lost. Debug and trace lines of the server, which would show protocol and payload, are never asked for.
type logger struct {
	log   *slog.Logger
	fatal chan string // the first fatal line; capacity 1

	mu   sync.Mutex
	said map[string]time.Time
}

// A server that cannot write says so at every attempt. The same warning is logged again only after a while.
const (
	sayAgain = 10 * time.Minute
	mostSaid = 256
)

// news says whether a line was not logged lately.
func (l *logger) news(line string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if at, ok := l.said[line]; ok && now.Sub(at) < sayAgain {
		return false
	}
	if l.said == nil || len(l.said) >= mostSaid {
		l.said = map[string]time.Time{}
	}
	l.said[line] = now
	return true
}

// whose tells lines about a connection from those of the server itself: what guests do wrong all day must not be the same thing
// to a log that bounds what is repeated.
func whose(line string) string {
	if strings.Contains(line, " - cid:") {
		return "nats connection"
	}
	return "nats server"
}

func (l *logger) Noticef(format string, v ...any) {
	l.log.Debug("nats server", "line", fmt.Sprintf(format, v...))
}

func (l *logger) Warnf(format string, v ...any) {
	if line := fmt.Sprintf(format, v...); l.news(line) {
		l.log.Warn(whose(line), "line", line)
	}
}

func (l *logger) Errorf(format string, v ...any) {
	if line := fmt.Sprintf(format, v...); l.news(line) {
		l.log.Error(whose(line), "line", line)
	}
}

func (l *logger) Debugf(string, ...any) {}
func (l *logger) Tracef(string, ...any) {}

// Fatalf, in the server's own logger, would end the process.
func (l *logger) Fatalf(format string, v ...any) {
	text := fmt.Sprintf(format, v...)
	l.log.Error("nats server", "line", text)
	select {
	case l.fatal <- text:
	default:
	}
}
