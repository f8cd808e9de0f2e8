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
	// tidyLimit is how long the removal of a copy may take that is broken off.
	tidyLimit = 2 * time.Second
)

// beside are copied with the store: the forwarders' checkpoints and the receipts of erasures. Other
// files in these folders are locks.
var beside = []string{"forward/*.json", "erasures/*.json"}

// idKey is the member of an object's metadata with the id of the store that was copied.
const idKey = "store-id"

// empty makes the folder for the parts of a copy. What a process that was killed has left there
// would keep people who are erased meanwhile.
func (p *pair) empty() (dir string, err error) {
	dir = filepath.Join(p.Dir, parts)
	return dir, errors.Join(os.RemoveAll(dir), os.MkdirAll(dir, 0o700))
}

// CopyNow writes the copy of the store, unless the lease is over.
func (t *Turn) CopyNow(ctx context.Context, s *store.Store) error {
	t.p.copying.Lock()
	defer t.p.copying.Unlock()
	if !t.Valid() {
		return nil
	}
	copies, err := t.p.copies(ctx)
	if err != nil {
		return err
	}
	from, err := t.p.empty()
	if err != nil {
		return err
	}
	defer os.RemoveAll(from)
	if err := s.CopyUnpublished(filepath.Join(from, storeFile)); err != nil {
		return err
	}
	r, w := io.Pipe()
	go func() { w.CloseWithError(pack(w, from, t.p.Dir)) }()
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
	into, err := p.empty()
	if err != nil {
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
	// A checkpoint that is not in the copy is of a receiver that the other doorbell has removed since
	// this one worked: a forwarder would deliver again what it does not list.
	own, _ := fs.Glob(os.DirFS(p.Dir), beside[0])
	for _, name := range own {
		if err := os.Remove(filepath.Join(p.Dir, name)); err != nil {
			return err
		}
	}
	for _, pattern := range beside {
		names, _ := fs.Glob(os.DirFS(from), pattern)
		for _, name := range names {
			if err := p.move(from, name); err != nil {
				return err
			}
		}
	}
	syscall.Sync() // the checkpoints must not be behind the store
	return p.move(from, storeFile)
}

// move moves a file to its place, where only the owner may read it.
func (p *pair) move(from, name string) error {
	source, target := filepath.Join(from, name), filepath.Join(p.Dir, name)
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
