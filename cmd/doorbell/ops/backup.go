package ops

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// stalled is how long a reader of a backup may take nothing: as long as a copy is under way, the store's file can only grow.
const stalled = 30 * time.Second

// sendBackup streams a copy of the store. A copy that fails ends the connection before all announced bytes are there.
func sendBackup(w http.ResponseWriter, backup func(w io.Writer, sized func(bytes int64)) error) {
	err := backup(patientWriter{w, http.NewResponseController(w)}, func(bytes int64) {
		w.Header().Set("Content-Type", "application/octet-stream")
		w.Header().Set("Content-Length", strconv.FormatInt(bytes, 10))
	})
	if err != nil {
		panic(http.ErrAbortHandler)
	}
}

// patientWriter writes as long as somebody reads.
type patientWriter struct {
	io.Writer
	control *http.ResponseController
}

func (w patientWriter) Write(p []byte) (int, error) {
	if err := w.control.SetWriteDeadline(time.Now().Add(stalled)); err != nil {
		return 0, err
	}
	return w.Writer.Write(p)
}

// Backup writes a copy of the daemon's store to w, as long as that takes. sized is told first how many bytes there will be, and
// may refuse them.
func (c *Client) Backup(ctx context.Context, w io.Writer, sized func(bytes int64) error) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://doorbell/backup", nil)
	if err != nil {
		return err
	}
	transport := c.http.Transport.(*http.Transport).Clone()
	transport.ResponseHeaderTimeout = stalled // it begins at once, and then takes as long as it takes
	response, err := (&http.Client{Transport: transport}).Do(r)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrNoAnswer, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the daemon answered %s", response.Status)
	}
	if err := sized(response.ContentLength); err != nil {
		return err
	}
	if _, err := io.Copy(w, response.Body); err != nil {
		return fmt.Errorf("copy from the daemon: %w", err)
	}
	return nil
}
