package events

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
)

// slowObject is parseObject as encoding/json has it.
func slowObject(data []byte) (o object, ok bool) {
	d := json.NewDecoder(bytes.NewReader(data))
	if t, err := d.Token(); err != nil || t != json.Delim('{') || !json.Valid(data) {
		return nil, false
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, false
		}
		m := member{name: name.(string)}
		if d.Decode(&m.value) != nil {
			return nil, false
		}
		o = append(o, m)
	}
	return o, true
}

func FuzzAnObjectIsSplitWhereEncodingJSONWouldSplitIt(f *testing.F) {
	for _, seed := range []string{
		``, ` `, `null`, `[]`, `"{"`, `5`, `{`, `{}`, ` { } `, `{"a":1}`, `{"a":1} x`, "\t{ \"a\" :\r\n[1, {\"b\":\"]}\"}] , \"a\":-1.5e3 }\n",
		`{"":"","\u00e4\"\\":"\\","ä":"\"}","x":{"y":[[],{}]},"n":null,"t":true,"f":false}`, "{\"\xff\":\"\xff\"}", `{"a":"\ud800"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := parseObject(data)
		want, ok := slowObject(data)
		if ok != (err == nil) || len(got) != len(want) {
			t.Fatalf("%q: %d members, %v; want %d", data, len(got), err, len(want))
		}
		for i := range want {
			if !reflect.DeepEqual(got[i], want[i]) {
				t.Fatalf("%q: member %q is %q, want %q is %q", data, got[i].name, got[i].value, want[i].name, want[i].value)
			}
		}
	})
}

func FuzzATextIsWrittenAndReadAsEncodingJSONDoes(f *testing.F) {
	for _, seed := range []string{"", "plain", `"\`, "ä\u2028<&>\x7f\x00\n", "\xff"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		want, _ := encode(s)
		if got := quote(s); !bytes.Equal(got, want) {
			t.Fatalf("%q is written as %s, want %s", s, got, want)
		}
		var read string
		_ = json.Unmarshal(want, &read)
		if got, err := unquote(want); err != nil || got != read {
			t.Fatalf("%s is read as %q, %v", want, got, err)
		}
	})
}

func TestWhatIsNoTextIsNotReadAsOne(t *testing.T) {
	for _, value := range []string{`1`, `{}`, `["a"]`, `true`} {
		if s, err := unquote([]byte(value)); err == nil {
			t.Errorf("%s is read as %q", value, s)
		}
	}
}
