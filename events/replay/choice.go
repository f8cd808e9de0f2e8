package replay

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ErrChoice: the job has published another choice of events before. What it passed over then would be taken for done.
var ErrChoice = errors.New("the job has replayed another choice of events")

// headerChoice tells the choice of a job with each of its messages.
const headerChoice = "doorbell-replay-choice"

// Choice is which events a job publishes, apart from agencies, each of which goes on for itself, and from where the choice
// ends, for it may end later another time. The zero value is all events.
type Choice struct {
	Kind  string    // whatever tells one kind of events from another
	From  uint64    // lowest sequence
	Since time.Time // of record
}

func (c Choice) text() string {
	hash := sha256.Sum256([]byte(c.Kind))
	since := int64(0)
	if !c.Since.IsZero() {
		since = max(c.Since.UnixMilli(), 1)
	}
	return fmt.Sprintf("%s/%d/%d", strings.ToLower(base32.StdEncoding.EncodeToString(hash[:10])), c.From, since)
}

// follows says whether a choice holds no event that the one before it, as told by a message, has passed over. What cannot be
// read is of a version that told nothing.
func (c Choice) follows(before string) bool {
	kind, from, since, ok := cutChoice(before)
	if !ok {
		return true
	}
	ownKind, ownFrom, ownSince, _ := cutChoice(c.text())
	return kind == ownKind && from <= ownFrom && since <= ownSince
}

func cutChoice(text string) (kind string, from uint64, since int64, ok bool) {
	parts := strings.Split(text, "/")
	if len(parts) != 3 {
		return "", 0, 0, false
	}
	from, err := strconv.ParseUint(parts[1], 10, 64)
	since, err2 := strconv.ParseInt(parts[2], 10, 64)
	return parts[0], from, since, err == nil && err2 == nil
}

// mayGoOn refuses a job that was used for other events.
func (j *Job) mayGoOn(ctx context.Context) error {
	m, err := j.lastOn(ctx, Subjects(j.o.Prefix, j.o.Job))
	if err != nil || m == nil {
		return err
	}
	if !j.o.Choice.follows(m.header.Get(headerChoice)) {
		return ErrChoice
	}
	return nil
}
