package standby

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"doorbell/store"
)

// A copy is a gzipped tar archive of the data directory without what the others do not need.
const (
	storeFile = "doorbell.db"
	outgoing  = storeFile + ".standby" // written by the store for a copy
	incoming  = "standby"              // a folder into which a copy is unpacked
)

const (
	// chunkLimit is how long the server may take to confirm a part of a copy. The library's 5 s are
	// too short for a slow line, on which many of them are on their way.
	chunkLimit = time.Minute
	// slowest is the rate in bytes per second at which a copy is read at least.
	slowest = 64 << 10
	// tidyLimit is how long the removal of a copy may take that is broken off.
	tidyLimit = 2 * time.Second
)

// folders are copied with the store: the forwarders' checkpoints and the receipts of erasures.
var folders = []string{"forward", "erasures"}

// idKey is the member of an object's metadata with the id of the store that was copied.
const idKey = "store-id"

// removeParts removes what a process that was killed has left of a copy. It would keep people who
// are erased meanwhile until the next turn of this machine.
func (p *pair) removeParts() {
	_ = os.Remove(filepath.Join(p.Dir, outgoing))
	_ = os.RemoveAll(filepath.Join(p.Dir, incoming))
}

// CopyNow writes the copy of the store, unless the lease is over.
func (t *Turn) CopyNow(ctx context.Context, s *store.Store) error {
	if !t.Valid() {
		return nil
	}
	copies, err := t.p.copies(ctx)
	if err != nil {
		return err
	}
	path := filepath.Join(t.p.Dir, outgoing)
	defer os.Remove(path)
	if err := s.CopyUnpublished(path); err != nil {
		return err
	}
	r, w := io.Pipe()
	go func() { w.CloseWithError(pack(w, t.p.Dir)) }()
	defer r.Close()
	// Put removes what it has written if it cannot read on, but not if its context has ended.
	putting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		w.CloseWithError(ctx.Err())
		time.AfterFunc(tidyLimit, cancel)
	})()
	_, err = copies.Put(putting, jetstream.ObjectMeta{Name: t.p.Name, Metadata: map[string]string{idKey: s.ID()}}, r)
	return err
}

// pack writes the archive.
func pack(w io.Writer, dir string) error {
	zipped := gzip.NewWriter(w)
	archive := tar.NewWriter(zipped)
	err := add(archive, filepath.Join(dir, outgoing), storeFile)
	for _, folder := range folders {
		list, missing := os.ReadDir(filepath.Join(dir, folder))
		if missing != nil && !errors.Is(missing, fs.ErrNotExist) {
			return missing
		}
		for _, f := range list {
			if err == nil && f.Type().IsRegular() && filepath.Ext(f.Name()) == ".json" { // not the locks
				err = add(archive, filepath.Join(dir, folder, f.Name()), folder+"/"+f.Name())
				if errors.Is(err, fs.ErrNotExist) { // it is gone meanwhile
					err = nil
				}
			}
		}
	}
	return errors.Join(err, archive.Close(), zipped.Close())
}

// add adds a file.
func add(archive *tar.Writer, path, name string) error {
	content, err := os.Open(path)
	if err != nil {
		return err
	}
	defer content.Close()
	info, err := content.Stat()
	if err != nil {
		return err
	}
	if err := archive.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: info.Size(), ModTime: info.ModTime()}); err != nil {
		return err
	}
	_, err = io.CopyN(archive, content, info.Size())
	return err
}

// takeOver puts the copy in the place of what this machine has. Without a copy, or if it is the
// copy of this machine's own store, which is then newer, everything stays.
func (p *pair) takeOver(ctx context.Context) error {
	copies, err := p.copies(ctx)
	if err != nil {
		return err
	}
	info, err := copies.GetInfo(ctx, p.Name)
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	own, err := ownStore(p.Dir)
	if err != nil || own == info.Metadata[idKey] {
		return err
	}
	reading, cancel := context.WithTimeout(ctx, chunkLimit+time.Duration(info.Size/slowest)*time.Second)
	defer cancel()
	object, err := copies.Get(reading, p.Name)
	if err != nil {
		return err
	}
	defer object.Close()
	into := filepath.Join(p.Dir, incoming)
	if err := errors.Join(os.RemoveAll(into), os.MkdirAll(into, 0o700)); err != nil {
		return err
	}
	defer os.RemoveAll(into)
	if err := unpack(object, into); err != nil {
		return fmt.Errorf("copy of %s: %w", p.Name, err)
	}
	if err := store.Adopt(filepath.Join(into, storeFile)); err != nil {
		return err
	}
	p.Log.Info("starting from the copy of the doorbell before this one", "pair", p.Name,
		"age", time.Since(info.ModTime).Round(time.Second).String())
	return p.install(into)
}

// ownStore returns the id of this machine's store; empty if there is none, or if it cannot be read.
func ownStore(dir string) (string, error) {
	s, err := store.OpenReadOnly(store.Options{Dir: dir})
	var locked *store.LockedError
	switch {
	case errors.As(err, &locked):
		return "", err
	case err != nil:
		return "", nil
	}
	return s.ID(), s.Close()
}

// install moves what was unpacked to its place. The store comes last: without it the next try
// begins again.
func (p *pair) install(from string) error {
	if err := p.forgetReceivers(filepath.Join(from, "forward")); err != nil {
		return err
	}
	for _, folder := range folders {
		list, err := os.ReadDir(filepath.Join(from, folder))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if err := os.MkdirAll(filepath.Join(p.Dir, folder), 0o700); err != nil {
			return err
		}
		for _, f := range list {
			if err := os.Rename(filepath.Join(from, folder, f.Name()), filepath.Join(p.Dir, folder, f.Name())); err != nil {
				return err
			}
		}
	}
	return os.Rename(filepath.Join(from, storeFile), filepath.Join(p.Dir, storeFile))
}

// forgetReceivers removes the checkpoints that are not in the copy, of receivers that the other
// doorbell has removed since this one worked. A forwarder would deliver again what they do not
// list.
func (p *pair) forgetReceivers(copied string) error {
	own := filepath.Join(p.Dir, "forward")
	list, err := os.ReadDir(own)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for _, f := range list {
		if filepath.Ext(f.Name()) != ".json" {
			continue
		}
		if _, missing := os.Stat(filepath.Join(copied, f.Name())); errors.Is(missing, fs.ErrNotExist) {
			err = errors.Join(err, os.Remove(filepath.Join(own, f.Name())))
		}
	}
	return err
}

// unpack writes the files of an archive below a folder, and nowhere else.
func unpack(r io.Reader, into string) error {
	root, err := os.OpenRoot(into)
	if err != nil {
		return err
	}
	defer root.Close()
	zipped, err := gzip.NewReader(r)
	if err != nil {
		return err
	}
	archive := tar.NewReader(zipped)
	for {
		h, err := archive.Next()
		if errors.Is(err, io.EOF) {
			_, err = io.Copy(io.Discard, zipped) // its checksum is behind the archive
			return err
		}
		if err != nil {
			return err
		}
		if err := write(root, h.Name, archive); err != nil {
			return err
		}
	}
}

func write(root *os.Root, name string, r io.Reader) error {
	if dir := filepath.Dir(name); dir != "." {
		if err := root.MkdirAll(dir, 0o700); err != nil {
			return err
		}
	}
	f, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Sync(), f.Close())
}
