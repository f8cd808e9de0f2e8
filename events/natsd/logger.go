package natsd

import (
	"fmt"
	"log/slog"
)

// logger passes the server's lines to slog. Notices are debug lines; the rare warnings about
// damaged files must not be lost. The server's debug and trace lines, which show protocol and
// payload, are off.
type logger struct {
	log   *slog.Logger
	fatal chan string // the first fatal line; capacity 1
}

func (l *logger) Noticef(format string, v ...any) {
	l.log.Debug("nats server", "line", fmt.Sprintf(format, v...))
}

func (l *logger) Warnf(format string, v ...any) {
	l.log.Warn("nats server", "line", fmt.Sprintf(format, v...))
}

func (l *logger) Errorf(format string, v ...any) {
	l.log.Error("nats server", "line", fmt.Sprintf(format, v...))
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
