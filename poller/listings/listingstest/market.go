package listingstest

import (
	"bufio"
	"compress/gzip"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// marketEnviron makes a test binary an API in which nothing happens: its value is the number of
// insertions and how bodies travel. It is a separate process, so that its cost is not
// counted, and holds nothing: each response is written from the number of its insertion.
const marketEnviron = "DOORBELL_TEST_MARKET"

func init() {
	if what := os.Getenv(marketEnviron); what != "" {
		m, packed := &market{}, false
		if _, err := fmt.Sscan(what, &m.insertions, &packed); err != nil {
			panic(err)
		}
		m.serve(packed)
	}
}

// Market is the API of that process as a benchmark sees it.
type Market struct {
	URL string
	TLS *tls.Config // how to speak to it if its bodies are packed
}

// StartMarket starts one until the end of the test. Packed are bodies that are compressed and come
// over HTTP/2.
func StartMarket(tb testing.TB, insertions int, packed bool) Market {
	tb.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %t", marketEnviron, insertions, packed))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		in.Close()
		_ = cmd.Wait() // its status means nothing
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		tb.Fatal("the API did not start")
	}
	url, encoded, _ := strings.Cut(strings.TrimSpace(line), " ")
	roots := x509.NewCertPool()
	if packed {
		certificate, err := x509.ParseCertificate(must(base64.StdEncoding.DecodeString(encoded)))
		if err != nil {
			tb.Fatal(err)
		}
		roots.AddCert(certificate)
	}
	return Market{URL: url, TLS: &tls.Config{RootCAs: roots}}
}

// Counts are the requests answered so far.
func (m Market) Counts(tb testing.TB) (pages, polls int) {
	tb.Helper()
	response, err := http.Get(m.URL + "/counts")
	if err != nil {
		tb.Fatal(err)
	}
	defer response.Body.Close()
	if _, err := fmt.Fscan(response.Body, &pages, &polls); err != nil {
		tb.Fatal(err)
	}
	return pages, polls
}

type market struct {
	insertions   int
	pages, polls atomic.Int64
}

func (m *market) serve(packed bool) {
	server, certificate := httptest.NewUnstartedServer(m), ""
	if packed {
		server.Config.Handler = gzipped(m)
		server.EnableHTTP2 = true
		server.StartTLS()
		certificate = base64.StdEncoding.EncodeToString(server.Certificate().Raw)
	} else {
		server.Start()
	}
	fmt.Println(server.URL, certificate)
	_, _ = io.Copy(io.Discard, os.Stdin) // ends with who started us
	os.Exit(0)
}

// gzipped answers as another handler does, compressed.
func gzipped(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		all := httptest.NewRecorder()
		h.ServeHTTP(all, r)
		w.Header().Set("Content-Type", all.Header().Get("Content-Type"))
		w.Header().Set("Content-Encoding", "gzip")
		g := gzip.NewWriter(w)
		defer g.Close()
		_, _ = g.Write(all.Body.Bytes())
	})
}

// MarketPage is the most insertions on a page.
const MarketPage = 100

const marketHistory = 3 // contact requests of each insertion

func (m *market) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/counts" {
		fmt.Fprintln(w, m.pages.Load(), m.polls.Load())
		return
	}
	var records []string
	if reference, ok := strings.CutPrefix(r.URL.Path, "/ubm-contact-request/property/"); ok {
		m.polls.Add(1)
		n, _ := strconv.Atoi(strings.Split(reference, "#")[1])
		for k := range marketHistory {
			at := time.Date(2026, 11, 20, 10, 41, 7, 0, time.UTC).Add(-time.Duration(n%1000+k*3000) * time.Minute)
			records = append(records, MarketRequest(n, k, at))
		}
	} else {
		m.pages.Add(1)
		size, err := strconv.Atoi(r.URL.Query().Get("pageSize"))
		if err != nil || size > MarketPage {
			size = MarketPage
		}
		page, _ := strconv.Atoi(r.URL.Query().Get("page"))
		first := (max(page, 1) - 1) * size
		for n := first; n < min(first+size, m.insertions); n++ {
			// Not in the order of the references, as a real list has no such order.
			records = append(records, MarketInsertion(int(int64(n)*7919%int64(m.insertions))))
		}
	}
	WriteMarket(w, records)
}

// WriteMarket writes records as a market does.
func WriteMarket(w http.ResponseWriter, records []string) {
	body := `{"results":[` + strings.Join(records, ",") + `]}`
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = io.WriteString(w, body)
}

// MarketReference is the reference of the n-th insertion.
func MarketReference(n int) string { return fmt.Sprintf("seefeld#%06d#H2#0305", n) }

// MarketInsertion is its record.
func MarketInsertion(n int) string { return fmt.Sprintf(marketInsertion, MarketReference(n), n, n%90) }

// MarketRequest is the k-th contact request of the n-th insertion.
func MarketRequest(n, k int, at time.Time) string {
	return fmt.Sprintf(marketRequest, n, k, at.Format(time.RFC3339Nano))
}

var marketInsertion = `{"propertyReferenceId":"%[1]s","id":400%07[2]d,"offerType":"RENT","rankType":"TOP",` +
	`"address":{"street":"Beispielstrasse %[3]d","postalCode":"8008","locality":"Zürich","geo":{"lat":47.35%[2]d,"lon":8.55%[2]d}},` +
	`"characteristics":{"numberOfRooms":3.5,"livingSpace":1%02[3]d,"hasBalcony":true,"hasLift":false,"floor":3},` +
	`"prices":{"currency":"CHF","rent":{"net":15%02[3]d,"extra":200,"gross":17%02[3]d,"interval":"MONTH"}},` +
	`"localization":{"primary":"de","de":{"text":{"title":"Helle Wohnung Nr. %[2]d","description":"` +
	strings.Repeat("Die Wohnung liegt ruhig und sonnig, nahe am See. ", 20) + `"},"attachments":[` +
	`{"type":"IMAGE","file":"https://media.example/%[2]d/1.jpg"},{"type":"IMAGE","file":"https://media.example/%[2]d/2.jpg"}]}},` +
	`"availableFrom":"2027-02-01","createdAt":"2026-10-02T08:55:00+0200","updatedAt":"2026-11-01T08:55:00+0100"}`

var marketRequest = `{"id":"7f0c2b1e-6d1f-4a53-9a57-%06[1]d%06[2]d","createdAt":%[3]q,"score":72.5,"salutation":"Frau",` +
	`"firstName":"Nora","lastName":"Beispiel","email":"nora.beispiel.%[1]d.%[2]d@example.org","phone":"079 000 01 23","language":"de",` +
	`"message":"Guten Tag, ist die Wohnung noch frei?\r\nIch könnte am Samstag vorbeikommen. ` + strings.Repeat("Wir sind zu dritt und ruhig. ", 8) + `",` +
	`"viewingTimes":["SAT_MORNING","MON_EVENING"],"status":"NEW","source":{"portal":"example","campaign":null,"device":"mobile"}}`
