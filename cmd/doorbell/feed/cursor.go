package feed

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"time"

	"doorbell/events/stream"
)

// cursor is a place in a stream: that behind a message. It names the message by a hash of its id,
// because a server that lost the end of the stream gives the same sequence to another one.
type cursor struct {
	created  int64  // when the stream was made, in nanoseconds since 1970
	sequence uint64 // 0: before the first message
	id       uint64
}

// errCursor says how a cursor that cannot be read is replaced. It does not quote it.
var errCursor = errors.New(
	"after: this is not a cursor of this feed; leave it out to begin with the oldest event")

// A cursor as text: its fields and a checksum, in the alphabet of URLs.
const cursorBytes = 8 + 8 + 8 + 4

var cursorText = base64.RawURLEncoding.Strict()

func (c cursor) String() string {
	b := make([]byte, 0, cursorBytes)
	b = binary.BigEndian.AppendUint64(b, uint64(c.created))
	b = binary.BigEndian.AppendUint64(b, c.sequence)
	b = binary.BigEndian.AppendUint64(b, c.id)
	return cursorText.EncodeToString(binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b)))
}

func parseCursor(text string) (c cursor, err error) {
	if len(text) != cursorText.EncodedLen(cursorBytes) {
		return c, errCursor
	}
	b, err := cursorText.DecodeString(text)
	if err != nil || len(b) != cursorBytes ||
		binary.BigEndian.Uint32(b[24:]) != crc32.ChecksumIEEE(b[:24]) {
		return c, errCursor
	}
	return cursor{
		int64(binary.BigEndian.Uint64(b)), binary.BigEndian.Uint64(b[8:]),
		binary.BigEndian.Uint64(b[16:]),
	}, nil
}

// begin is the place before the first message of a stream.
func begin(created time.Time) cursor { return cursor{created: created.UnixNano()} }

// behind is the place behind a message of the same stream.
func (c cursor) behind(m *stream.Message) cursor {
	sum := sha256.Sum256([]byte(m.ID()))
	return cursor{c.created, m.Sequence, binary.BigEndian.Uint64(sum[:])}
}
