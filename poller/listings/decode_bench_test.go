package listings

import (
	"fmt"
	"net/http"
	"strings"
	"syscall"
	"testing"
)

// BenchmarkDecode is what it costs to read an answer with twenty contact requests that is another one than before, and to
// digest them.
func BenchmarkDecode(b *testing.B) {
	var all []string
	for n := range 20 {
		all = append(all, fmt.Sprintf(`{"id":"c-%d","createdAt":"2026-11-20T09:41:07Z","score":72.5,"contact":{"firstName":"Nora","email":"n%d@example.org",`+
			`"phone":"079 000 01 23"},"message":"Guten Tag\r\n%s","status":"NEW"}`, n, n, strings.Repeat("Wir sind zu dritt. ", 8)))
	}
	body := `{"contactRequests":[` + strings.Join(all, ",") + `],"total":20}`
	c := bare(b)
	cpu := func() int64 {
		var u syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
		return u.Utime.Nano()
	}
	began := cpu()
	for b.Loop() {
		x := &exchange{request: Request{Operation: OperationContactRequests, AgencyID: "A100", Reference: "a#b##"}, status: http.StatusOK, body: []byte(body)}
		page, err := c.contactRequestsPage(x)
		if err != nil || len(page.ContactRequests) != 20 {
			b.Fatal(err)
		}
		for _, r := range page.ContactRequests {
			_ = r.Digest(Outside{})
		}
	}
	b.ReportMetric(float64(cpu()-began)/float64(b.N)/1000, "cpu-µs/op")
}
