package natsd

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// checkStream is nil if the server will find in a stream's folder all that it has acknowledged, and nothing that makes it
// stumble. Damage is errDamaged; any other error says why it could not be checked.
func checkStream(ctx context.Context, folder, name string) error {
	h, err := readBlocks(ctx, filepath.Join(folder, "msgs"), name)
	if errors.Is(err, syscall.EIO) {
		return damagedf("%v", err)
	}
	if err != nil {
		return err
	}
	m, err := checkMeta(folder, name)
	switch {
	case err != nil && h.bytes == 0:
		return errUnfinished
	case err != nil:
		return err
	}
	x := readIndex(filepath.Join(folder, "msgs", "index.db"), name)
	if x == nil {
		return h.compareWithNothing(m)
	}
	return h.compare(*x, m.MaxAge)
}

// errUnfinished: the process was killed while the stream was made, or ended. Nothing was written to it.
var errUnfinished = errors.New("never finished")

// meta is what meta.inf says of a stream.
type meta struct {
	Created   time.Time       `json:"created"`
	MaxAge    time.Duration   `json:"max_age"` // at which messages expire; 0: never
	FirstSeq  uint64          `json:"first_seq"`
	Retention string          `json:"retention"`
	Discard   string          `json:"discard"`
	PerName   int64           `json:"max_msgs_per_subject"`
	Expire    bool            `json:"allow_msg_ttl"`
	RollUp    bool            `json:"allow_rollup_hdrs"`
	Mirror    json.RawMessage `json:"mirror"`
}

// keepsAll says whether nothing can be gone from the front but by a hand: a stream like ours that is younger than what it keeps.
func (m meta) keepsAll() bool {
	young := m.MaxAge == 0 || time.Since(m.Created) < m.MaxAge-time.Minute
	return young && m.Retention == "limits" && m.Discard == "new" && m.PerName <= 0 && !m.Expire && !m.RollUp && m.Mirror == nil
}

// checkMeta checks meta.inf by the sum beside it.
func checkMeta(folder, hashName string) (m meta, err error) {
	b, err := os.ReadFile(filepath.Join(folder, "meta.inf"))
	if err != nil {
		return m, damagedf("meta.inf: %v", err)
	}
	sum, err := os.ReadFile(filepath.Join(folder, "meta.sum"))
	if err != nil {
		return m, damagedf("meta.sum: %v", err)
	}
	if hex.EncodeToString(hashOf(hashName, b)) != string(sum) || json.Unmarshal(b, &m) != nil {
		return m, damagedf("meta.inf does not fit its sum")
	}
	return m, nil
}

// index is what index.db says of a stream: how it stood when the server wrote it last, never later than the blocks.
type index struct {
	messages, first, last uint64
	firstTime             time.Time
}

// readIndex returns nil where there is none, or none that can be read: the server then reads the blocks.
func readIndex(path, stream string) *index {
	b, err := os.ReadFile(path)
	if err != nil || len(b) < 32 || !bytes.Equal(hashOf(stream, b[:len(b)-recordHash]), b[len(b)-recordHash:]) {
		return nil
	}
	r := bytes.NewReader(b[2 : len(b)-recordHash])
	var x index
	var errs [5]error
	x.messages, errs[0] = binary.ReadUvarint(r)
	_, errs[1] = binary.ReadUvarint(r) // bytes
	x.first, errs[2] = binary.ReadUvarint(r)
	at, err := binary.ReadVarint(r)
	x.firstTime, errs[3] = time.Unix(0, at), err
	x.last, errs[4] = binary.ReadUvarint(r)
	if errors.Join(errs[:]...) != nil {
		return nil
	}
	return &x
}

// compareWithNothing is compare without an index: that of a young stream, or one that is damaged itself. The messages between
// others must be there; and so must those in front of them, where none is gone by itself: the last that is erased or purged is
// remembered.
func (h holdings) compareWithNothing(m meta) error {
	if h.missing > 0 {
		return damagedf("%d messages are missing between %d and %d", h.missing, h.first, h.last)
	}
	begin := max(1, m.FirstSeq)
	if _, told := h.removed[h.first-1]; h.front > 0 && h.messages > 0 && h.first > begin && m.keepsAll() && !told {
		return damagedf("messages are from %d, and should be from %d", h.first, begin)
	}
	return nil
}

// compare holds what is there against what was there.
func (h holdings) compare(x index, maxAge time.Duration) error {
	if h.newest < x.last {
		return damagedf("messages up to %d were there, and are up to %d", x.last, h.newest)
	}
	removed := uint64(0) // of which no record is left where a block was written anew
	if x.messages > 0 {
		removed = x.last - x.first + 1 - min(x.messages, x.last-x.first+1)
	}
	if h.missing > removed {
		return damagedf("%d messages are missing between %d and %d", h.missing-removed, h.first, h.last)
	}
	expired := maxAge > 0 && time.Since(x.firstTime) > maxAge-time.Minute
	if _, told := h.removed[x.first]; x.messages > 0 && h.first > x.first && !expired && !told {
		return damagedf("messages from %d were there, and are from %d", x.first, h.first)
	}
	return nil
}

// checkConsumer is nil if the server can take up a consumer where it was. Its state has no checksum: what cannot be is
// found, a likely number is believed.
func checkConsumer(folder, stream, name string) error {
	if _, err := checkMeta(folder, stream+"/"+name); err != nil {
		return err
	}
	b, err := os.ReadFile(filepath.Join(folder, "o.dat"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil // none yet
	}
	const magic, version = 22, 2
	if err != nil || len(b) < 2 || b[0] != magic || b[1] != version {
		return damagedf("o.dat is none")
	}
	return checkPlaces(bytes.NewReader(b[2:]))
}

// checkPlaces reads a consumer's state as the server will: a number too large would make it ask for all memory there is.
func checkPlaces(r *bytes.Reader) error {
	var err error
	number := func() (n uint64) {
		if err == nil {
			n, err = binary.ReadUvarint(r)
		}
		return n
	}
	acknowledged, acknowledgedPlace, delivered, deliveredPlace := number(), number(), number(), number()
	if acknowledged > delivered || acknowledgedPlace > deliveredPlace || deliveredPlace >= removal {
		return damagedf("o.dat holds what cannot be")
	}
	pending := number()
	if pending > 0 {
		number() // a time
	}
	for ; pending > 0 && err == nil; pending-- {
		if place := number(); err == nil && place+acknowledgedPlace == 0 {
			return damagedf("o.dat holds what cannot be")
		}
		number() // of the delivery
		number() // its time
	}
	for again := number(); again > 0 && err == nil; again-- {
		number() // a place
		number() // how often
	}
	if err != nil {
		return damagedf("o.dat is cut")
	}
	return nil
}

// mend looks through all streams before the server does, and sets aside what is damaged: what it would cut off, overlook or
// stumble over. Nothing is deleted.
func (s *Server) mend(ctx context.Context) error {
	root := filepath.Join(s.options.StoreDir, "jetstream")
	if err := os.RemoveAll(filepath.Join(root, pulseAccount)); err != nil { // ours, and worth nothing
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, s.options.StartTimeout/3)
	defer cancel()
	streams, err := filepath.Glob(filepath.Join(root, "*", "streams", "*"))
	if err != nil {
		return err
	}
	for _, folder := range streams {
		err := checkStream(ctx, folder, filepath.Base(folder))
		switch {
		case errors.Is(err, errDamaged):
			if err := s.setAside(folder, err, "it is built anew from the event log; its consumers have to be made again"); err != nil {
				return err
			}
			continue
		case errors.Is(err, errUnfinished): // the server would count a stream as lost for ever that never was one
			if err := os.RemoveAll(folder); err != nil {
				return err
			}
			continue
		case err != nil:
			s.options.Logger.Warn("a stream is not checked for damage", "folder", folder, "err", err.Error())
		}
		if err := s.mendConsumers(folder); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) mendConsumers(stream string) error {
	consumers, err := filepath.Glob(filepath.Join(stream, "obs", "*"))
	if err != nil {
		return err
	}
	for _, folder := range consumers {
		if err := checkConsumer(folder, filepath.Base(stream), filepath.Base(folder)); errors.Is(err, errDamaged) {
			if err := s.setAside(folder, err, "this consumer has to be made again"); err != nil {
				return err
			}
		}
	}
	return nil
}

// setAside moves a folder out of the server's way, into one that is named for the moment, and says so. What was set aside
// before stays: it may be the last copy of something, and to delete it is for a person to decide.
func (s *Server) setAside(folder string, why error, then string) error {
	root := filepath.Join(s.options.StoreDir, "jetstream")
	inner, err := filepath.Rel(root, folder)
	if err != nil {
		return err
	}
	name := corruptPrefix + s.booted.UTC().Format("20060102T150405.000Z")
	to := filepath.Join(filepath.Dir(s.options.StoreDir), name, inner)
	err = move(folder, to)
	if errors.Is(err, syscall.EXDEV) || errors.Is(err, os.ErrPermission) { // the folder is a file system of its own
		to = filepath.Join(s.options.StoreDir, name, inner)
		err = move(folder, to)
	}
	if err != nil {
		return fmt.Errorf("set aside %s, which is %w: %w", folder, why, err)
	}
	s.options.Logger.Error("JetStream's files were damaged and are set aside", "damage", why.Error(), "folder", folder, "now", to, "then", then,
		"set_aside_so_far", len(s.asides()), "advice", "delete what is set aside when nobody needs it: it may hold people's data, and nothing else deletes it")
	return nil
}

const corruptPrefix = "jetstream.corrupt-"

// asides are the folders that were set aside, now or earlier.
func (s *Server) asides() (all []string) {
	for _, dir := range []string{filepath.Dir(s.options.StoreDir), s.options.StoreDir} {
		found, _ := filepath.Glob(filepath.Join(dir, corruptPrefix+"*")) // the pattern is well formed
		all = append(all, found...)
	}
	return all
}

func move(from, to string) error {
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	err := os.Rename(from, to)
	if err != nil {
		_ = os.Remove(filepath.Dir(to)) // if it is empty
	}
	return err
}
