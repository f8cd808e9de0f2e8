package events

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

func FuzzJSONIsMadeCompactAsEncodingJSONDoes(f *testing.F) {
	for _, seed := range append(oddValues,
		`[1,-0.5e+7,"a\u00E4\"\\",{"b":{}, "c" :[ ]},true ,false, null]`, `"\u12G4"`, `"\u123g"`, `"\u12`, `"\`, `tru`, `truee`, `[`, `[1`, `{"a":1,}`, `{,}`, `{"a" 1}`, `{1:2}`, `[1 2]`,
		`[1}`, `{"a":1]`, `-`, `1.`, `1e`, `1e+`, `00`, `.5`, "\x00", "1\x00", "\v1", "\"\x1f\"", "\"\x7f\"", "[\"\xff\xfe\" , \"\xe2\x80\"]", "\xff1",
	) {
		if len(seed) < 100 {
			f.Add([]byte(seed))
		}
	}
	f.Fuzz(checkCompact)
}

func checkCompact(t *testing.T, src []byte) {
	given := bytes.Clone(src)
	var want bytes.Buffer
	want.WriteString("> ")
	wantOK := json.Compact(&want, src) == nil
	got, ok := appendCompact([]byte("> "), src)
	if ok != wantOK || !bytes.Equal(got, valid(want.Bytes())) {
		t.Fatalf("%.100q became %.100q, %v; want %.100q, %v", src, got, ok, want.Bytes(), wantOK)
	}
	if !bytes.Equal(src, given) {
		t.Fatalf("%.100q was written to", given)
	}
}

func TestValuesStandInEachOtherAsDeepAsEncodingJSONLetsThem(t *testing.T) {
	for _, depth := range []int{maxDepth - 1, maxDepth, maxDepth + 1, 3_000_000} {
		checkCompact(t, []byte(strings.Repeat("[", depth)+strings.Repeat("]", depth)))
		checkCompact(t, []byte(strings.Repeat(`{"a":`, depth)+"1"+strings.Repeat("}", depth)))
		checkCompact(t, []byte(strings.Repeat("[", depth)))
	}
}
