package main

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
)

// TestWhatAServerSaysBeyondItsAnswerIsNotPrinted is about a gateway that tells a length too short.
func TestWhatAServerSaysBeyondItsAnswerIsNotPrinted(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	const person, list = "nora.beyond@example.org", `[{"propertyReferenceId":"a#1##"}]` // to look at which takes many requests
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				in := bufio.NewReader(c)
				for {
					if _, err := http.ReadRequest(in); err != nil {
						return
					}
					_, _ = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s%s", len(list), list, person)
				}
			}()
		}
	}()
	d := launch(t, []string{
		"DOORBELL_BASE_URL=http://" + l.Addr().String(), "DOORBELL_AGENCIES=A100", "DOORBELL_API_KEY=" + testKey, "DOORBELL_DATA_DIR=" + t.TempDir(),
		"DOORBELL_NATS_LISTEN=127.0.0.1:0", "DOORBELL_HTTP_LISTEN=off",
	}, "check")
	d.exit(t)
	if said := d.stdout.String() + d.stderr.String(); strings.Contains(said, person) || !strings.Contains(said, "A100") {
		t.Errorf("it says:\n%s", said)
	}
}
