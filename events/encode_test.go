package events

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// rounds multiplies drawn cases: go test ./events -rounds 10.
var rounds = flag.Int("rounds", 1, "how many times 200 odd payloads of each type are drawn")

// byNames is encodePayload with nothing but names: what encoding/json writes, in the order of the contract, the members that
// are times with their third digit.
func byNames(p Payload) (json.RawMessage, error) {
	data, err := encode(p)
	if err != nil {
		return nil, err
	}
	o, err := parseObject(data)
	if err != nil {
		return nil, err
	}
	padTimes(&o)
	return o.sorted().encode(), nil
}

var first = []string{
	"agencyId", "propertyReferenceId", "contactRequestId", "identity", "origin",
	"createdAt", "observedAt", "observedAfter", "truncated",
}

// sorted puts the opening first and leaves the rest as it is.
func (o object) sorted() object {
	var sorted object
	for _, name := range first {
		if i := o.index(name); i >= 0 {
			sorted = append(sorted, o[i])
			o = slices.Delete(o, i, i+1)
		}
	}
	return append(sorted, o...)
}

var timeMembers = []string{
	"observedAt", "observedAfter", "createdAt", "lastSeenAt", "disappearedAt", "haltedAt", "startedAt",
	"lastSuccessAt", "since", "from", "to", "until",
}

// padTimes gives times their third digit, which encoding/json drops where it is a zero.
func padTimes(o *object) {
	for i, m := range *o {
		if slices.Contains(timeMembers, m.name) {
			(*o)[i].value = padTime(m.value)
		}
	}
}

func padTime(value json.RawMessage) json.RawMessage {
	_, fraction, ok := bytes.Cut(value, []byte("."))
	if !ok || value[0] != '"' {
		return value
	}
	digits := len(fraction) - len(`Z"`)
	if digits < 1 || digits > 2 {
		return value
	}
	return slices.Concat(value[:len(value)-len(`Z"`)], []byte("00"[:3-digits]), []byte(`Z"`))
}

// filler fills a payload with what might stand there and with what should not.
type filler struct {
	// pick chooses one of n.
	pick func(n int) int
}

var (
	oddTexts = []string{
		"", "", "plain", "Zürich", "\xff", "caf\xe9\xff\xfe", "\u2028\u2029", "\x00\x01\x1f\x7f\x80", "\"\\/", "<&>", "a\tb\nc\rd\be\ff",
		"😀\U0010FFFF", "\uFFFD", "\xed\xa0\x80", "\xef", "\xef\xbf", "\xe2\x80", "{", "[", ",", "2026-11-20T09:41:07.5Z", strings.Repeat("ä\"", 2_000),
	}
	oddNumbers = []json.Number{
		"", "", "0", "-0", "3.50", "1e5", "-1.5E+30", "12345678901234567891", "01", "-", "1.", ".5", "+1", "1e", "0x1", " 1", "1 ", "null", "\"1\"", "NaN", "1\n",
		"\x001", "1,2", "1]",
	}
	oddValues = []string{
		"", "", "null", "true", "72.50", " 7 ", "\"high\"", "\"a \\u00e4\\ud800\\/ \u2028<\"", "\"\xff\xfe \xe9\"", "{}", "[ ]", "{ \"b\" : 1.50 ,\r\n\t\"a\":[ 1 , { } ]}",
		"{\"a\":1,\"a\":2}", "{\"\xff\":\"x\"}", "{", "[1,]", "{\"a\"}", "\"open", "\"\n\"", "1 2", "nul", " ", "{} x", "\xff", "\"\\x\"", "01", "\uFEFF1",
		strings.Repeat("[", 10_001) + strings.Repeat("]", 10_001), strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000),
	}
	oddTimes = []time.Time{
		{},
		{},
		time.Unix(0, 0), time.Date(2026, 11, 20, 9, 41, 7, 0, time.UTC), time.Date(2026, 11, 20, 10, 41, 7, 500_000_000, time.FixedZone("", 3600)),
		time.Date(2026, 11, 20, 9, 41, 7, 39_999_999, time.UTC), time.Date(2026, 11, 20, 9, 41, 7, 999_999, time.UTC), time.Date(1, 1, 1, 0, 0, 0, 1_000_000, time.UTC),
		time.Date(9999, 12, 31, 23, 59, 59, 999_999_999, time.UTC), time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(-1, 1, 1, 0, 0, 0, 7, time.UTC),
		time.Date(1, 1, 1, 0, 0, 0, 0, time.FixedZone("", 3600)),
	}
	oddCounts = []int{0, 0, 1, -1, 403, 1 << 62}
)

func one[T any](f filler, list []T) T { return list[f.pick(len(list))] }

// fill fills a struct and all that stands in it.
func (f filler) fill(v reflect.Value) {
	switch x := v.Addr().Interface().(type) {
	case *time.Time:
		*x = one(f, oddTimes)
		return
	case *json.Number:
		*x = one(f, oddNumbers)
		return
	case *json.RawMessage:
		*x = []json.RawMessage{nil, json.RawMessage(one(f, oddValues))}[f.pick(2)]
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(one(f, oddTexts))
	case reflect.Bool:
		v.SetBool(f.pick(2) == 0)
	case reflect.Int:
		v.SetInt(int64(one(f, oddCounts)))
	case reflect.Uint64:
		v.SetUint(uint64(one(f, oddCounts)))
	case reflect.Uint8:
		v.SetUint(uint64(f.pick(256)))
	case reflect.Pointer:
		if v.SetZero(); f.pick(3) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			f.fill(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f.fill(v.Field(i))
		}
	case reflect.Array:
	case reflect.Slice:
		if v.SetZero(); f.pick(3) > 0 {
			v.Set(reflect.MakeSlice(v.Type(), one(f, []int{0, 1, 2, 12}), 12))
		}
		for i := range v.Len() {
			f.fill(v.Index(i))
		}
	default:
		panic(fmt.Sprintf("a payload holds a %s", v.Type()))
	}
}

// checkWritten holds what New writes against what encoding/json does.
func checkWritten(t rapid.TB, p Payload) (good bool) {
	t.Helper()
	e, err := New(p) // which settles it
	want, wantErr := byNames(p)
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("%T: error is %v, want %v: %+v", p, err, wantErr, p)
	}
	if err == nil && !bytes.Equal(e.Data, want) {
		t.Fatalf("%T is written as\n%q, want\n%q", p, e.Data, want)
	}
	return err == nil
}

func TestEveryPayloadIsWrittenAsEncodingJSONWouldWriteIt(t *testing.T) {
	good := 0
	rapid.Check(t, func(t *rapid.T) {
		f := filler{func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "pick") }}
		p := reflect.New(payloads[rapid.SampledFrom(Types).Draw(t, "type")]).Interface().(Payload)
		f.fill(reflect.ValueOf(p).Elem())
		if checkWritten(t, p) {
			good++
		}
	})
	if good == 0 {
		t.Error("no payload was good")
	}
}

// Where one odd value meets the example of a type, all else is good, and nothing hides what it does.
func TestOneOddMemberIsWrittenAsEncodingJSONWouldWriteIt(t *testing.T) {
	for _, kind := range Types {
		random := rand.New(rand.NewPCG(1, uint64(len(kind))))
		for range 200 * *rounds {
			p := reflect.New(payloads[kind]).Interface().(Payload)
			filler{func(n int) int { return min(2, random.IntN(n)) }}.fill(reflect.ValueOf(p).Elem()) // the tame ones
			fields := reflect.VisibleFields(reflect.TypeOf(p).Elem())
			field := fields[random.IntN(len(fields))]
			filler{random.IntN}.fill(reflect.ValueOf(p).Elem().FieldByIndex(field.Index))
			checkWritten(t, p)
		}
	}
}

func FuzzAContactRequestIsWrittenAsEncodingJSONWouldWriteIt(f *testing.F) {
	for i, value := range oddValues {
		f.Add(oddTexts[i%len(oddTexts)], string(oddNumbers[i%len(oddNumbers)]), value, int64(i)*499_999_999)
	}
	f.Fuzz(func(t *testing.T, text, number, value string, at int64) {
		tell := &ContactRequestCreated{
			PropertyReferenceID: text, ContactRequestID: value, CreatedAt: time.Unix(at/1e9, at%1e9),
			Contact: Contact{FirstName: text, Address: &Address{Street: text}}, Defects: []string{text, number},
		}
		checkWritten(t, tell)
		tell.Insertion.Rooms = json.Number(number)
		checkWritten(t, tell)
		tell.Insertion.Rooms, tell.Record = "", json.RawMessage(value)
		checkWritten(t, tell)
		tell.Record, tell.Score = nil, json.RawMessage(value)
		checkWritten(t, tell)
	})
}

func FuzzAnObjectIsSplitIntoWhatEncodingJSONFindsInIt(f *testing.F) {
	for _, seed := range []string{
		``, ` `, `null`, `[]`, `"{"`, `5`, `{`, `{}`, ` { } `, `{"a":1}`, `{"a":1} x`, "\t{ \"a\" :\r\n[1, {\"b\":\"]}\"}] , \"a\":-1.5e3 }\n",
		`{"":"","\u00e4\"\\":"\\","ä":"\"}","x":{"y":[[],{}]},"n":null,"t":true,"f":false}`, "{\"\xff\":\"\xff\"}", `{"a":"\ud800"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := parseObject(data)
		var want map[string]json.RawMessage
		if ok := json.Unmarshal(data, &want) == nil && want != nil; ok != (err == nil) {
			t.Fatalf("%q: %v, want %v", data, err, ok)
		}
		found := map[string]json.RawMessage{}
		for _, m := range got {
			found[m.name] = m.value
		}
		if len(found) != len(want) || len(want) > 0 && !reflect.DeepEqual(found, want) {
			t.Fatalf("%q is split into %q, want %q", data, found, want)
		}
		if err != nil {
			return
		}
		again, err := parseObject(got.encode())
		if err != nil || !reflect.DeepEqual(again, got) {
			t.Fatalf("%q is written as %q and read as %q, %v", data, got.encode(), again, err)
		}
	})
}
