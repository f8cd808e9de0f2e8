package store_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
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
	const insertions, history, together = 100_000, 5, 50 // in a commit: it measures size and not the disk
	for b.Loop() {
		s, err := store.Open(store.Options{Dir: b.TempDir(), BaseURL: baseURL})
		must(b, err)
		remember := func(some []int, history int) {
			update(b, s, func(tx *store.Tx) (err error) {
				for _, n := range some {
					var all []store.ContactRequest
					for i := range history {
						all = append(all, remembered(n, i))
					}
					err = errors.Join(err, tx.PutContactRequests("A100", fmt.Sprintf("seefeld#%d#H2#%04d", n/7, n%9999), all...))
				}
				return err
			})
		}
		random := rand.New(rand.NewPCG(1, 2))
		for some := range slices.Chunk(random.Perm(insertions), together) {
			remember(some, history)
		}
		for range insertions / 10 / together {
			some := make([]int, together)
			for i := range some {
				some[i] = random.IntN(insertions)
			}
			remember(some, history+1)
		}
		info, err := os.Stat(s.Path())
		must(b, err)
		used, err := s.InUse()
		must(b, errors.Join(err, s.Close()))
		for unit, size := range map[string]int64{"file-B": info.Size(), "used-B": used} {
			b.ReportMetric(float64(size)/(insertions*history+insertions/10), unit+"/contact-request")
		}
	}
}

// remembered is a contact request with the fields of the contract's example.
func remembered(insertion, n int) store.ContactRequest {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d/%d", insertion, n))
	c := store.ContactRequest{
		ID:          fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16]),
		Fingerprint: store.Short(sum[:8]), Digest: store.Short(sum[8:16]), Rules: 0xdeadbeef,
		CreatedAt: time.Unix(1_770_000_000+int64(sum[0])*3600, 0).UTC(),
	}
	for name := range strings.FieldsSeq("id createdAt salutation firstName lastName email phone language message viewingTimes status") {
		c.Fields = append(c.Fields, store.Field{Name: name})
	}
	return c
}
