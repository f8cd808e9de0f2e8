package torture

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
)

// The test binary is a cheap API of its own where this says how many insertions it has: what is measured beside it is the
// daemon, so answers are put together from a few texts, and nothing ever changes.
const cheapInsertions = "TEST_CHEAP_INSERTIONS"

const (
	cheapHistory  = 5 // contact requests of each insertion
	cheapPageSize = 100
)

// cheapAPI is that process as the benchmark sees it.
type cheapAPI struct {
	url string
	cmd *exec.Cmd
}

func startCheapAPI(b testing.TB, insertions int) cheapAPI {
	b.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), cheapInsertions+"="+strconv.Itoa(insertions))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		b.Fatal("the API did not start")
	}
	return cheapAPI{url: strings.TrimSpace(line), cmd: cmd}
}

// counts are the requests answered so far.
func (a cheapAPI) counts(b testing.TB) (pages, polls int) {
	b.Helper()
	response, err := http.Get(a.url + "/counts")
	if err != nil {
		b.Fatal(err)
	}
	defer response.Body.Close()
	if _, err := fmt.Fscan(response.Body, &pages, &polls); err != nil {
		b.Fatal(err)
	}
	return pages, polls
}

func serveCheaply(size string) {
	n, err := strconv.Atoi(size)
	if err != nil {
		os.Exit(2)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		os.Exit(1)
	}
	fmt.Println("http://" + l.Addr().String())
	s := &cheapServer{insertions: n}
	_ = http.Serve(l, s)
}

type cheapServer struct {
	insertions   int
	pages, polls atomic.Int64
}

func (s *cheapServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	path := r.URL.EscapedPath()
	switch {
	case path == "/counts":
		fmt.Fprintln(w, s.pages.Load(), s.polls.Load())
	case strings.HasSuffix(path, "/insertions"):
		s.pages.Add(1)
		size := min(max(number(r.URL.Query().Get("pageSize"), 50), 1), cheapPageSize)
		_, _ = w.Write(s.page(number(r.URL.Query().Get("page"), 1), size))
	default:
		s.polls.Add(1)
		reference, _ := url.PathUnescape(path[strings.LastIndexByte(path, '/')+1:])
		var agency, house, object int
		_, _ = fmt.Sscanf(reference, "seefeld%d#%d#H2#%d", &agency, &house, &object)
		_, _ = w.Write(s.contactRequests(object))
	}
}

func number(text string, otherwise int) int {
	if n, err := strconv.Atoi(text); err == nil {
		return n
	}
	return otherwise
}

func (s *cheapServer) page(page, size int) []byte {
	b := make([]byte, 0, size*len(cheapInsertion)+200)
	b = append(b, `{"items":[`...)
	first := (max(page, 1) - 1) * size
	for n := first; n < min(first+size, s.insertions); n++ {
		if n > first {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, cheapInsertion, shuffled(n, s.insertions))
	}
	return fmt.Appendf(b, `],"total":%d}`, s.insertions)
}

// shuffled is another order than that of the references, as those of a real list are in none.
func shuffled(n, of int) int { return int(int64(n) * 7919 % int64(of)) }

func (s *cheapServer) contactRequests(object int) []byte {
	b := []byte(`{"contactRequests":[`)
	for n := range cheapHistory {
		if n > 0 {
			b = append(b, ',')
		}
		b = fmt.Appendf(b, cheapContactRequest, uint32(object)*2654435761, n, object, 28-n)
	}
	return fmt.Appendf(b, `],"total":%d}`, cheapHistory)
}

var cheapInsertion = `{"propertyReferenceId":"seefeld1#1203#H2#%[1]d","id":4001234567,"offerType":"RENT","rankType":"TOP",` +
	`"address":{"street":"Beispielstrasse 12","postalCode":"8008","locality":"Zürich","country":"CH"},` +
	`"characteristics":{"numberOfRooms":3.5,"livingSpace":84,"hasBalcony":true,"floor":3,"yearBuilt":1974},` +
	`"prices":{"currency":"CHF","rent":{"net":2590,"extra":200,"gross":2790,"interval":"MONTH"}},` +
	`"localization":{"primary":"de","de":{"text":{"title":"Helle 3.5-Zimmerwohnung im Seefeld %[1]d","description":"` +
	strings.Repeat("Ruhige Lage, Sonne am Nachmittag, nahe am See. ", 18) + `"}}},"createdAt":"2026-01-20T08:55:00+0100"}`

const cheapContactRequest = `{"id":"%08[1]x-6d1f-4a53-9a57-%04[2]x%08[3]x","createdAt":"2026-02-%[4]dT10:41:07+0100","score":72.5,` +
	`"salutation":"Frau","firstName":"Nora","lastName":"Beispiel","email":"nora.%[3]d.%[2]d@example.org","phone":"079 000 01 23",` +
	`"language":"de","message":"Guten Tag, ist die Wohnung noch frei?\r\nIch könnte am Samstag vorbeikommen.",` +
	`"viewingTimes":["SAT_MORNING"],"status":"NEW"}`
