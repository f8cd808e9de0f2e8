package slack_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"doorbell/events/forward"
	"doorbell/events/forward/forwardtest"
)

// rounds adds numbers of requests, and requests of one person and of many with each text: go test ./events/forward/slack -rounds 2.
var rounds = flag.Int("rounds", 1, "2: the worst texts also in messages of 2 and 20 requests, of one person and of many")

func TestTheLargestAndWorstTextsAreWithinTheLimits(t *testing.T) { chat.Limits(t, *rounds) }

func TestNobodyIsMissingInAList(t *testing.T) {
	for _, piece := range forwardtest.Worst {
		for _, same := range []bool{true, false} {
			body := string(chat.Body(t, true, forward.Delivery{Events: forwardtest.Crowd(t, piece, same)}))
			for i := range 20 {
				if who := fmt.Sprintf("Person%c", 'A'+i); !strings.Contains(body, who) {
					t.Errorf("%.20q, one insertion %v: %s is missing", piece, same, who)
				}
			}
		}
	}
}

func FuzzRender(f *testing.F) { chat.Fuzz(f, append([]string{"<!channel>"}, forwardtest.Worst...)...) }
