package standby

import (
	"archive/zip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"doorbell/events/stream"
	"doorbell/store"
)

// A copy is a zip archive of the data directory without what the others do not need.
const (
	storeFile = "doorbell.db"
	parts     = "standby" // a folder for what is packed and unpacked
	incoming  = "copy.zip"
)

const (
	// chunkLimit is how long the server may take to confirm a part of a copy. The library's 5 s are
	// too short for a slow line, on which many of them are on their way.
	chunkLimit = time.Minute
	// slowest is the rate in bytes per second at which a copy is read at least.
	slowest = 64 << 10
	// tidyLimit is how long the removal of an interrupted copy may take. The server first confirms
	// the parts that are on their way, which took longer than 2 s on a busy machine. The limit
	// stays below the 10 s in which a service manager expects a stop.
	tidyLimit = 8 * time.Second
)

// beside are copied with the store: the forwarders' checkpoints and the receipts of erasures. Other
// files in these folders are locks.
var beside = []string{"forward/*.json", "erasures/*.json"}

// idKey is the member of an object's metadata with the id of the store that was copied.
const idKey = "store-id"

// empty makes the folder for the parts of a copy. What a process that was killed has left there
// would keep people who are erased meanwhile.
func (t *Turn) empty() (dir string, err error) {
	dir = filepath.Join(t.o.Dir, parts)
	return dir, errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o700))
}

// CopyNow writes the copy of the store, unless the lease is over.
func (t *Turn) CopyNow(ctx context.Context, s *store.Store) error {
	t.copying.Lock()
	defer t.copying.Unlock()
	if !t.Valid() {
		return nil
	}
	copies, err := t.copies(ctx)
	if err != nil {
		return err
	}
	from, err := t.empty()
	if err != nil {
		return err
	}
	defer os.RemoveAll(from)
	if err := s.CopyUnpublished(filepath.Join(from, storeFile)); err != nil {
		return err
	}
	r, w := io.Pipe()
	go func() { w.CloseWithError(pack(w, from, t.o.Dir)) }()
	defer r.Close()
	// Put removes what it has written if it cannot read on, but not if its context has ended.
	putting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		w.CloseWithError(ctx.Err())
		time.AfterFunc(tidyLimit, cancel)
	})()
	_, err = copies.Put(putting,
		jetstream.ObjectMeta{Name: t.o.Name, Metadata: map[string]string{idKey: s.ID()}}, r)
	return err
}

// copies opens the object store, and makes it if it is missing.
func (t *Turn) copies(ctx context.Context) (jetstream.ObjectStore, error) {
	ctx, cancel := context.WithTimeout(ctx, replyLimit)
	defer cancel()
	js, err := t.o.Conn.JetStream(jetstream.WithDefaultTimeout(chunkLimit))
	if err != nil {
		return nil, err
	}
	copies, err := js.ObjectStore(ctx, CopyBucket)
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		replicas, err := stream.Replicas(ctx, js, t.o.Stream)
		if err != nil {
			return nil, err
		}
		return js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{
			Bucket: CopyBucket, Description: "doorbell: what a doorbell that takes over starts from",
			Replicas: replicas, TTL: t.o.Keep,
		})
	}
	return copies, err
}

// pack writes an archive with the store of one directory and the files beside it of another.
func pack(w io.Writer, from, dir string) error {
	archive := zip.NewWriter(w)
	if err := archive.AddFS(os.DirFS(from)); err != nil {
		return err
	}
	for _, pattern := range beside {
		names, _ := fs.Glob(os.DirFS(dir), pattern) // the patterns are good
		for _, name := range names {
			text, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil { // it was removed meanwhile: the next try packs what is left
				return err
			}
			entry, err := archive.Create(name)
			if err != nil {
				return err
			}
			if _, err := entry.Write(text); err != nil {
				return err
			}
		}
	}
	return archive.Close()
}

// takeOver puts the copy in the place of what this machine has. Without a copy, or if it is the
// copy of this machine's own store, which is then newer, everything stays.
func (t *Turn) takeOver(ctx context.Context) error {
	copies, err := t.copies(ctx)
	if err != nil {
		return err
	}
	info, err := copies.GetInfo(ctx, t.o.Name)
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	own, err := ownStore(t.o.Dir)
	if err != nil || own == info.Metadata[idKey] {
		return err
	}
	reading, cancel := context.WithTimeout(ctx,
		chunkLimit+time.Duration(info.Size/slowest)*time.Second)
	defer cancel()
	object, err := copies.Get(reading, t.o.Name)
	if err != nil {
		return err
	}
	defer object.Close()
	into, err := t.empty()
	if err != nil {
		return err
	}
	defer os.RemoveAll(into)
	if err := unpack(object, into); err != nil {
		return fmt.Errorf("copy of %s: %w", t.o.Name, err)
	}
	if err := store.Adopt(filepath.Join(into, storeFile)); err != nil {
		return err
	}
	t.o.Log.Info("starting from the previous doorbell's copy", "pair", t.o.Name,
		"age", time.Since(info.ModTime).Round(time.Second).String())
	return t.install(into)
}

// ownStore returns the id of this machine's store; empty if there is none, or if it cannot be read.
func ownStore(dir string) (string, error) {
	s, err := store.OpenReadOnly(store.Options{Dir: dir})
	switch {
	case errors.As(err, new(*store.LockedError)):
		return "", err
	case err != nil:
		return "", nil
	}
	return s.ID(), s.Close()
}

// install moves what was unpacked to its place. The store comes last: without it the next try
// begins again.
func (t *Turn) install(from string) error {
	// A checkpoint that is not in the copy is of a receiver that the other doorbell has removed
	// since this one worked: a forwarder would deliver again what it does not list.
	own, _ := fs.Glob(os.DirFS(t.o.Dir), beside[0])
	for _, name := range own {
		if err := os.Remove(filepath.Join(t.o.Dir, name)); err != nil {
			return err
		}
	}
	for _, pattern := range beside {
		names, _ := fs.Glob(os.DirFS(from), pattern)
		for _, name := range names {
			if err := t.move(from, name); err != nil {
				return err
			}
		}
	}
	syscall.Sync() // the checkpoints must not be behind the store
	return t.move(from, storeFile)
}

// move moves a file to its place, where only the owner may read it.
func (t *Turn) move(from, name string) error {
	source, target := filepath.Join(from, name), filepath.Join(t.o.Dir, name)
	if err := os.MkdirAll(filepath.Dir(target), 0o700); err != nil {
		return err
	}
	return errors.Join(os.Chmod(source, 0o600), os.Rename(source, target))
}

// unpack writes the files of an archive below a folder, and nowhere else.
func unpack(r io.Reader, into string) error {
	path := filepath.Join(into, incoming)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, r)
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	archive, err := zip.OpenReader(path)
	if err != nil {
		return err
	}
	defer archive.Close()
	return os.CopyFS(into, archive)
}
