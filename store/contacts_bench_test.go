package store_test

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"doorbell/store"
)

// BenchmarkRemember measures what it takes to remember 500,000 contact requests of 100,000 insertions, committed as polls
// do: first those that were there, the insertions in no order of their references, then one in ten more, here and there.
// file-B is the size of the file, used-B that of its pages in use, both by contact request; nothing else is in it.
//
//	go test ./store -run '^$' -bench Remember -benchtime 1x
func BenchmarkRemember(b *testing.B) {
	const insertions, history = 100_000, 5
	for range b.N {
		b.StopTimer()
		dir := b.TempDir()
		s, err := store.Open(store.Options{Dir: dir, BaseURL: "http://127.0.0.1:1"})
		must(b, err)
		b.StartTimer()
		random := rand.New(rand.NewPCG(1, 2))
		order := random.Perm(insertions)
		count := insertions * history
		for from := 0; from < insertions; from += commitTogether {
			remember(b, s, order[from:from+commitTogether], history)
		}
		for range insertions / 10 / commitTogether {
			some := make([]int, commitTogether)
			for i := range some {
				some[i] = random.IntN(insertions)
			}
			remember(b, s, some, history+1)
			count += commitTogether
		}
		b.StopTimer()
		info, err := os.Stat(s.Path())
		must(b, err)
		used, err := s.InUse()
		must(b, err)
		b.ReportMetric(float64(info.Size())/float64(count), "file-B/contact-request")
		b.ReportMetric(float64(used)/float64(count), "used-B/contact-request")
		must(b, s.Close())
	}
}

// commitTogether is how many insertions are in a commit of the benchmark, for it measures size and not the disk.
const commitTogether = 50

// remember stores the contact requests of some insertions, including those that are already known.
func remember(b *testing.B, s *store.Store, insertions []int, history int) {
	b.Helper()
	err := s.Update(func(tx *store.Tx) error {
		for _, n := range insertions {
			reference := fmt.Sprintf("seefeld#%d#H2#%04d", n/7, n%9999)
			var all []store.ContactRequest
			for i := range history {
				all = append(all, remembered(n, i))
			}
			if err := tx.PutContactRequests("A100", reference, all...); err != nil {
				return err
			}
		}
		return nil
	})
	must(b, err)
}

// remembered is a contact request with the fields of the contract's example.
func remembered(insertion, n int) store.ContactRequest {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d/%d", insertion, n))
	c := store.ContactRequest{
		ID:          fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16]),
		Fingerprint: store.Short(sum[:8]), Digest: store.Short(sum[8:16]), Rules: 0xdeadbeef,
		CreatedAt: time.Unix(1_770_000_000+int64(sum[0])*3600, 0).UTC(),
	}
	for _, name := range []string{
		"id", "createdAt", "salutation", "firstName", "lastName", "email", "phone", "language", "message", "viewingTimes", "status",
	} {
		c.Fields = append(c.Fields, store.Field{Name: name})
	}
	return c
}
