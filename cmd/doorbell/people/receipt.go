package people

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"doorbell/store"
)

// Folder is where receipts are in the data directory.
const Folder = "erasures"

// Receipt says what an erasure has done, without the person, and is the task until it is finished.
// It is one file in Folder.
type Receipt struct {
	ID       string    `json:"id"`
	Version  string    `json:"doorbell"`
	StoreID  string    `json:"storeId"`
	AgencyID string    `json:"agencyId,omitempty"` // that alone was searched
	Begun    time.Time `json:"begun"`
	Finished time.Time `json:"finished,omitzero"` // zero until everything is erased
	// Requests are the contact requests of the person; their ids stay.
	Requests []Request `json:"requests"`
	// Erased says for each place how many events lost the person, or were removed; without those of
	// an attempt that was cut short.
	Erased map[string]int `json:"erased"`
	// FreePages says whether free pages of the store's file may still hold the person: AtNextStart,
	// or Compacted.
	FreePages string `json:"freePages,omitempty"`
	// Attempts counts how often the streams were begun.
	Attempts int `json:"attempts"`
	// Problem is why the last attempt failed.
	Problem string `json:"problem,omitempty"`
	// OutOfReach is what doorbell cannot erase, in words: it is the operator's.
	OutOfReach []string `json:"outOfReach"`
}

// The words of Receipt.FreePages. Free pages go when the file is compacted.
const (
	Compacted   = "compacted"
	AtNextStart = "until the next start"
)

// Receipts returns those in a data directory, the oldest first. Where a file is not one, it is an
// ErrNoReceipt beside the others.
func Receipts(dir string) (all []Receipt, err error) {
	files, err := filepath.Glob(filepath.Join(dir, Folder, "*.json"))
	for _, path := range files {
		r, failed := ReadReceipt(path)
		if err = errors.Join(err, failed); failed == nil {
			all = append(all, r)
		}
	}
	slices.SortStableFunc(all, func(a, b Receipt) int { return a.Begun.Compare(b.Begun) })
	return all, err
}

// ErrNoReceipt: a file is no receipt.
var ErrNoReceipt = errors.New("it is not a receipt of doorbell forget")

// ReadReceipt reads one file.
func ReadReceipt(path string) (r Receipt, err error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return r, fmt.Errorf("receipt: %w", err)
	}
	if json.Unmarshal(b, &r) != nil || r.ID == "" ||
		r.ID != strings.TrimSuffix(filepath.Base(path), ".json") {
		return r, fmt.Errorf("%s: %w", path, ErrNoReceipt)
	}
	return r, nil
}

// Path is the file of a receipt.
func (p *Places) Path(r Receipt) string { return filepath.Join(p.Dir, Folder, r.ID+".json") }

// Save writes a receipt durably, in place of what was there of it.
func (p *Places) Save(r Receipt) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = os.MkdirAll(filepath.Join(p.Dir, Folder), 0o700)
	}
	if err == nil {
		err = store.ReplaceFile(p.Path(r), append(b, '\n'))
	}
	if err != nil {
		return fmt.Errorf("receipt: %w", err)
	}
	return nil
}
