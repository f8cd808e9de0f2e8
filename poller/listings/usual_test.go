package listings

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"doorbell/poller/listings/listingstest"
)

// assertUsual holds a body that a scanner calls usual to what is left out because of that. It says whether it was called so.
func assertUsual(t *testing.T, body []byte) bool {
	t.Helper()
	found := newSketch("", nil, IDFields, true).read(body)
	if found.judgeTexts(body); !found.usual {
		return false
	}
	body = trimBOM(body)
	if wrong := check(body); wrong != "" {
		t.Fatalf("usual and %s: %q", wrong, body)
	}
	as, _ := jsontext.AppendFormat(nil, body, jsontext.PreserveRawStrings(true))
	again, err := jsontext.AppendFormat(nil, body)
	if err != nil || !bytes.Equal(as, again) {
		t.Fatalf("usual and not in canonical form, %v: %q", err, body)
	}
	return true
}

func TestOnlyProperJSONWithoutAnythingOddInItIsUsual(t *testing.T) {
	for _, body := range []string{
		`[]`, ` [ {"a" : 1.5} ] `, `{"a":["\"\\\b\f\n\r\t",-0.5,0,true,false,null],"ä":"ä€😀"}`, `[{}]`, `"a"`, "[\"\x7f\"]",
	} {
		if !assertUsual(t, []byte(body)) {
			t.Errorf("unusual: %q", body)
		}
	}
	for _, body := range []string{
		``, `[`, `[01]`, `[tru]`, `[1.]`, `[-]`, `[1e5]`, `[+1]`, `[\n]`, `["\u00fc"]`, `["\/"]`, `["\x"]`, `["\`, `["a\"]`, "[\"\n\"]", "[\n]", "[\"\x00\"]",
		"[\"\xff\"]", "[\"\xc3\"]", "{\"\xff\":1}", `{"a":1,"a":2}`, `{"\n":1}`, `[1,]`, `{"a":1,}`, `{"a"}`, `{1:1}`, `[1 2]`, `[] []`, `nul`, `[ä]`, "[1\u00a0]",
		strings.Repeat("[", 65) + strings.Repeat("]", 65), "[1,2,3,4,5,6,7,8\x1f]", "[\"\x1f\"]",
	} {
		if assertUsual(t, []byte(body)) {
			t.Errorf("usual: %q", body)
		}
	}
}

func TestWhateverIsUsualNeedsNoOtherCheck(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	odds := []string{`"`, `\`, `\u00fc`, `\n`, `\/`, "\n", "\x1f", " ", ",", ":", "{", "}", "[", "]", "1", "01", "-", "e5", "null", "\xff", "ä", "\x7f"}
	usual, all := 0, 0
	for _, x := range listingstest.Fixtures() {
		if len(x.Body) == 0 || len(x.Body) > 4<<10 {
			continue
		}
		for range 100 {
			at := random.IntN(len(x.Body))
			to := min(len(x.Body), at+random.IntN(2))
			body := slices.Replace(bytes.Clone(x.Body), at, to, []byte(odds[random.IntN(len(odds))])...)
			all++
			if assertUsual(t, body) {
				usual++
			}
		}
	}
	if usual < all/50 || usual > all/2 {
		t.Errorf("%d of %d are usual", usual, all)
	}
}
