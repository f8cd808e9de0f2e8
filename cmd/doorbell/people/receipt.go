package people

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Folder is where receipts stand in the data directory.
const Folder = "erasures"

// Receipt says what an erasure has done, without the person, and is the job until it is finished. It is one file in Folder.
type Receipt struct {
	ID       string    `json:"id"`
	Version  string    `json:"doorbell"`
	StoreID  string    `json:"storeId"`
	Searched Searched  `json:"searched"`
	Begun    time.Time `json:"begun"`
	// Finished is zero until everything is erased.
	Finished time.Time `json:"finished,omitzero"`
	// Again are the moments at which it was begun again, because a store or stream from before it was put back, and FinishedFirst is when
	// it was finished before.
	Again         []time.Time `json:"again,omitempty"`
	FinishedFirst time.Time   `json:"finishedFirst,omitzero"`
	// Requests are the contact requests of the person; their ids stay.
	Requests []Request `json:"requests"`
	// Held says for each place how many events held the person when it began.
	Held map[string]int `json:"held"`
	// Erased says how many of them lost the person, or were removed; one that was cut short by a crash is not counted.
	Erased map[string]int `json:"erased"`
	// LogErased says that nothing is left of it in the event log.
	LogErased bool `json:"logErased"`
	// FreePages says whether bytes of it may still stand in pages of the store's file that are free: AtNextStart, or Compacted.
	FreePages string `json:"freePages,omitempty"`
	// Problem is why it is not finished, of the last try.
	Problem string `json:"problem,omitempty"`
	// OutOfReach is what doorbell cannot erase, in words: the operator's.
	OutOfReach []string `json:"outOfReach"`
}

// What Receipt.FreePages says. Free pages go when the file is compacted.
const (
	Compacted   = "compacted"
	AtNextStart = "until the next start"
)

// Searched is the kind of what was searched for. The address itself would be the person.
type Searched struct {
	By       string `json:"by"`
	AgencyID string `json:"agencyId,omitempty"`
}

// Receipts are those in a data directory, the oldest first. A file that is none is an ErrNoReceipt, beside those that are.
func Receipts(dir string) (all []Receipt, err error) {
	entries, err := os.ReadDir(filepath.Join(dir, Folder))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("receipts: %w", err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".json") {
			continue
		}
		r, failed := ReadReceipt(filepath.Join(dir, Folder, e.Name()))
		if failed == nil {
			all = append(all, r)
		}
		err = errors.Join(err, failed)
	}
	slices.SortStableFunc(all, func(a, b Receipt) int { return a.Begun.Compare(b.Begun) })
	return all, err
}

// Unfinished says whether an erasure was begun and not finished, or a receipt cannot be read.
func Unfinished(dir string) bool {
	all, err := Receipts(dir)
	return err != nil || slices.ContainsFunc(all, func(r Receipt) bool { return r.Finished.IsZero() })
}

// ErrNoReceipt: a file is no receipt.
var ErrNoReceipt = errors.New("it is no receipt of doorbell forget")

// ReadReceipt reads one file.
func ReadReceipt(path string) (r Receipt, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return r, fmt.Errorf("receipt: %w", err)
	}
	if json.Unmarshal(b, &r) != nil || r.ID == "" || r.ID != filepath.Base(r.ID) {
		return r, fmt.Errorf("%s: %w", path, ErrNoReceipt)
	}
	return r, nil
}

// Path is the file of a receipt.
func (p *Places) Path(r Receipt) string { return filepath.Join(p.Dir, Folder, r.ID+".json") }

// Save writes a receipt durably, in the place of what was there of it.
func (p *Places) Save(r Receipt) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(r); err != nil {
		return err
	}
	if err := p.write(r.ID+".json", b.Bytes()); err != nil {
		return fmt.Errorf("receipt: %w", err)
	}
	return nil
}

// write writes a file of Folder.
func (p *Places) write(name string, b []byte) error {
	folder := filepath.Join(p.Dir, Folder)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return err
	}
	return writeFile(filepath.Join(folder, name), b)
}

// writeFile writes a file of the owner's, all of it or nothing, and brings it to the disk.
func writeFile(path string, b []byte) error {
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(path+".new", path); err != nil {
		return err
	}
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}
