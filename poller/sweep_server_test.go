package poller_test

import (
	"bufio"
	"compress/gzip"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The API of the sweeps stands in a process of its own, so that what it costs is not counted. It holds nothing: every
// answer is written from the number of its insertion.

const (
	sweepServer = "DOORBELL_TEST_SWEEP_SERVER" // makes this test binary the server
	sweepAgency = "A100"
)

func init() {
	if what := os.Getenv(sweepServer); what != "" {
		serveSweep(what == "packed")
	}
}

func serveSweep(packed bool) {
	flag.Parse()
	server := httptest.NewUnstartedServer(http.HandlerFunc(market))
	certificate := ""
	if packed {
		server.Config.Handler = gzipped(server.Config.Handler)
		server.EnableHTTP2 = true
		server.StartTLS()
		certificate = base64.StdEncoding.EncodeToString(server.Certificate().Raw)
	} else {
		server.Start()
	}
	fmt.Println(server.URL, certificate)
	io.Copy(io.Discard, os.Stdin) // ends with who started us
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
		g.Write(all.Body.Bytes())
	})
}

// startSweepServer returns the base URL of a server with so many insertions, and how to speak TLS to it if its answers are
// packed: they are compressed then, and come over HTTP/2.
func startSweepServer(tb testing.TB, packed bool) (string, *tls.Config) {
	tb.Helper()
	cmd := exec.Command(os.Args[0], "-sweep.insertions", strconv.Itoa(*sweepCount))
	cmd.Env = append(os.Environ(), sweepServer+"="+map[bool]string{false: "plain", true: "packed"}[packed])
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		in.Close()
		cmd.Wait() // its status says nothing
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		tb.Fatal(err)
	}
	base, encoded, _ := strings.Cut(strings.TrimSpace(line), " ")
	roots := x509.NewCertPool()
	if packed {
		der, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil {
			tb.Fatal(err)
		}
		certificate, err := x509.ParseCertificate(der)
		if err != nil {
			tb.Fatal(err)
		}
		roots.AddCert(certificate)
	}
	return base, &tls.Config{RootCAs: roots}
}

func sweepReference(n int) string { return fmt.Sprintf("seefeld#%06d#H2#0305", n) }

// market answers like a service in which nothing happens.
func market(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	var records []string
	if reference, ok := strings.CutPrefix(r.URL.Path, "/ubm-contact-request/property/"); ok {
		n, _ := strconv.Atoi(strings.Split(reference, "#")[1])
		for k := range 3 {
			records = append(records, "{"+strings.Join(contactMembers(n, k), ",")+"}")
		}
	} else {
		size, page := queried(r.URL.Query(), "pageSize"), queried(r.URL.Query(), "page")
		for n := max(page-1, 0) * size; n < min(max(page, 1)*size, *sweepCount); n++ {
			records = append(records, "{"+strings.Join(insertionMembers(n), ",")+"}")
		}
	}
	body := `{"results":[` + strings.Join(records, ",") + `]}`
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	io.WriteString(w, body)
}

func contactMembers(n, k int) []string {
	at := time.Date(2026, 11, 20, 10, 41, 7, 0, time.UTC).Add(-time.Duration(n%1000+k*3000) * time.Minute)
	return []string{
		fmt.Sprintf(`"id":"7f0c2b1e-6d1f-4a53-9a57-%06d%06d"`, n, k),
		`"createdAt":"` + at.Format(time.RFC3339) + `"`,
		`"score":72.5`, `"salutation":"Frau"`, `"firstName":"Nora"`, `"lastName":"Beispiel"`,
		fmt.Sprintf(`"email":"nora.beispiel.%d.%d@example.org"`, n, k), `"phone":"079 000 01 23"`, `"language":"de"`,
		`"message":"Guten Tag, ist die Wohnung noch frei?\r\nIch könnte am Samstag vorbeikommen. ` + strings.Repeat("Wir sind zu dritt und ruhig. ", 8) + `"`,
		`"viewingTimes":["SAT_MORNING","MON_EVENING"]`, `"status":"NEW"`,
		`"source":{"portal":"example","campaign":null,"device":"mobile"}`,
	}
}

func insertionMembers(n int) []string {
	return []string{
		`"propertyReferenceId":"` + sweepReference(n) + `"`, fmt.Sprintf(`"id":%d`, 4_001_000_000+n),
		`"offerType":"RENT"`, `"rankType":"TOP"`,
		fmt.Sprintf(`"address":{"street":"Beispielstrasse %d","postalCode":"8008","locality":"Zürich","geo":{"lat":47.35%d,"lon":8.55%d}}`, n%90, n, n),
		fmt.Sprintf(`"characteristics":{"numberOfRooms":3.5,"livingSpace":%d,"hasBalcony":true,"hasLift":false,"floor":%d}`, 40+n%90, n%7),
		fmt.Sprintf(`"prices":{"currency":"CHF","rent":{"net":%d,"extra":200,"gross":%d,"interval":"MONTH"}}`, 1500+n%900, 1700+n%900),
		fmt.Sprintf(`"localization":{"primary":"de","de":{"text":{"title":"Helle Wohnung Nr. %d","description":"%s"},"attachments":[{"type":"IMAGE","file":"https://media.example/%d/1.jpg"},{"type":"IMAGE","file":"https://media.example/%d/2.jpg"}]}}`,
			n, strings.Repeat("Die Wohnung liegt ruhig und sonnig, nahe am See. ", 20), n, n),
		`"availableFrom":"2027-02-01"`, `"createdAt":"2026-10-02T08:55:00+0200"`, `"updatedAt":"2026-11-01T08:55:00+0100"`,
	}
}
