package people

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"doorbell/events"
)

// event is a contact request with this contact and record.
func event(t *testing.T, contact, record string) events.Event {
	t.Helper()
	var c events.Contact
	must(t, json.Unmarshal([]byte(contact), &c))
	e, err := events.New(&events.ContactRequestCreated{
		Common: events.Common{AgencyID: "A100"}, PropertyReferenceID: "house#1", ContactRequestID: "id-1", Identity: events.IdentityID, Contact: c, Record: json.RawMessage(record),
	})
	must(t, err)
	return e
}

func TestAPersonIsFoundByAnyFormOfTheSameAddress(t *testing.T) {
	const nobody = `{}`
	for n, c := range []struct {
		wanted          Wanted
		contact, record string
		found           match
	}{
		{Wanted{Email: "nora@example.org"}, `{"email":"nora@example.org"}`, nobody, own},
		{Wanted{Email: " Nora@Example.org "}, `{"email":"nora@EXAMPLE.ORG"}`, nobody, own},
		{Wanted{Email: "n.ora@example.org"}, `{"email":"nora@example.org"}`, nobody, none},
		{Wanted{Email: "nora@example.org"}, `{"email":"eleonora@example.org"}`, nobody, none},
		{Wanted{Email: "nora@example.org"}, `{"email":"m-nora@example.org"}`, nobody, none},
		{Wanted{Email: "nora@example.org"}, `{"email":"nora@example.org.ch"}`, nobody, none},
		{Wanted{Email: "nora@example.org"}, `{"email":"nora@example.organic"}`, nobody, none},
		{Wanted{Email: "nora@example.org"}, `{"message":"Schreiben Sie an nora@example.org."}`, nobody, names},
		{Wanted{Email: "nora@example.org"}, `{"message":"eleonora@example.org, nora@example.org"}`, nobody, names},
		{Wanted{Email: "nora@example.org"}, `{"message":"<Nora@example.org>"}`, nobody, names},
		{Wanted{Email: "nora@example.org"}, nobody, `{"extra":{"mails":["x","NORA@example.org"]}}`, own},
		{Wanted{Email: "nora@example.org"}, nobody, `{"extra":"none"}`, none},
		{Wanted{Phone: "079 000 01 23"}, `{"phone":"+41790000123"}`, nobody, own},
		{Wanted{Phone: "+41 79 000 01 23"}, `{"phoneRaw":"079/000 01 23"}`, nobody, own},
		{Wanted{Phone: "0041790000123"}, nobody, `{"tel":41790000123,"also":"0790000123"}`, own},
		{Wanted{Phone: "079 000 01 24"}, `{"phone":"+41790000123"}`, nobody, none},
		{Wanted{Phone: "12 34 56 78"}, `{"phoneRaw":"12345678"}`, nobody, own}, // its country is unknown
		{Wanted{Phone: "079 000 01 23"}, `{"message":"0790000123"}`, nobody, own},
		{Wanted{Phone: "079 000 01 23"}, `{"phoneRaw":"044 555 55 55 / 79 000 01 23"}`, nobody, own},
		{Wanted{Phone: "044 555 55 55"}, `{"phoneRaw":"044 555 55 55 / 79 000 01 23"}`, nobody, own},
		{Wanted{Phone: "079 000 01 23"}, `{"message":"Rufen Sie 079/000.01.23 an, 2 Zimmer"}`, nobody, names},
		{Wanted{Phone: "079 000 01 23"}, `{"message":"079 000 01, 23 Zimmer"}`, nobody, none},
		{Wanted{Phone: "+49 151 23456789"}, `{"message":"004915123456789"}`, nobody, own},
		{Wanted{Email: "mailto:nora@example.org"}, `{"email":"nora@example.org"}`, nobody, own},
		{Wanted{Email: "nora@xn--bcher-kva.example"}, `{"email":"Nora@Bücher.example"}`, nobody, own},
		{Wanted{Email: "nora@BÜCHER.example"}, `{"email":"nora@xn--bcher-kva.example"}`, nobody, own},
		{Wanted{Email: "nora@bücher.example"}, `{"message":"an nora@XN--BCHER-KVA.example, bitte"}`, nobody, names},
		{Wanted{Email: "zoë@example.org"}, `{"email":"zoe\u0308@example.org"}`, nobody, own},
		{Wanted{Email: "zoe\u0308@example.org"}, `{"email":"zoë@example.org"}`, nobody, own},
		{Wanted{Email: "nora＠example.org"}, `{"email":"nora@example.org"}`, nobody, own},
		{Wanted{Email: "nora@example.org"}, `{"email":"nora＠example.org"}`, nobody, own},
		{Wanted{Email: "nora@example.org"}, `{"email":"ｎora@example.org"}`, nobody, own},
		{Wanted{ContactRequestID: "id-1"}, nobody, nobody, own},
		{Wanted{ContactRequestID: "id-2"}, nobody, nobody, none},
		{Wanted{PropertyReferenceID: "house#1"}, nobody, nobody, own},
		{Wanted{PropertyReferenceID: "house"}, nobody, nobody, none},
		{Wanted{ContactRequestID: "id-1", PropertyReferenceID: "house#1"}, nobody, nobody, own},
		{Wanted{ContactRequestID: "id-1", PropertyReferenceID: "house#2"}, nobody, nobody, none},
		{Wanted{ContactRequestID: "id-1", AgencyID: "B200"}, nobody, nobody, none},
		{Wanted{ContactRequestID: "id-1", AgencyID: "A100"}, nobody, nobody, own},
	} {
		if err := c.wanted.Check(); err != nil {
			t.Errorf("case %d: %v", n, err)
		}
		if got := c.wanted.match(event(t, c.contact, c.record)); got != c.found {
			t.Errorf("case %d: found is %d", n, got)
		}
	}
}

// An address is found whatever surrounds it; part of another one is not.
func TestAnAddressIsFoundInAnyText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[a-z0-9][a-z0-9._+-]{0,8}[a-z0-9]`).Draw(t, "name")
		address := name + "@" + rapid.StringMatching(`[a-z0-9]{1,6}\.[a-z]{2,3}`).Draw(t, "host")
		before := rapid.StringMatching(`(.* |.*<|.*ü)?`).Draw(t, "before")
		after := rapid.StringMatching(`( .*|>.*|\.|, .*)?`).Draw(t, "after")
		is := mentions(address)
		if !is(before + address + after) {
			t.Fatalf("%q is not found", before+address+after)
		}
		if more := rapid.StringMatching(`[a-z0-9._+-]`).Draw(t, "more"); is(more + address) {
			t.Fatalf("%q is found in %q", address, more+address)
		}
	})
}

func TestARequestThatMeansNobodyIsRefusedWithoutQuotingIt(t *testing.T) {
	for n, c := range []struct {
		wanted Wanted
		want   error
	}{
		{Wanted{}, ErrNobody},
		{Wanted{AgencyID: "A100"}, ErrNobody},
		{Wanted{Email: "a@example.org", Phone: "0790000123"}, ErrNobody},
		{Wanted{Email: "example.org"}, ErrEmail},
		{Wanted{Email: "@example.org"}, ErrEmail},
		{Wanted{Email: "nora@"}, ErrEmail},
		{Wanted{Email: "Nora <nora@example.org>"}, ErrEmail},
		{Wanted{Email: "nora@example.org,x@example.org"}, ErrEmail},
		{Wanted{Email: " "}, ErrEmail},
		{Wanted{Phone: "123"}, ErrPhone},
		{Wanted{Phone: "nobody"}, ErrPhone},
		{Wanted{Phone: "000000"}, ErrPhone}, // every number would contain what is left of it
		{Wanted{Phone: "0000 44"}, ErrPhone},
	} {
		if err := c.wanted.Check(); !errors.Is(err, c.want) {
			t.Errorf("case %d: %v", n, err)
		}
	}
}

func TestAReceiptComesBackAsItWasSaved(t *testing.T) {
	p := Places{Dir: t.TempDir()}
	r := Receipt{ID: "20261120T094107Z-abcdef", Requests: []Request{{"A100", "house#1", "id-1"}}, Erased: map[string]int{inLog: 2}}
	must(t, p.Save(r))
	got, err := Receipts(p.Dir)
	if err != nil || len(got) != 1 || fmt.Sprint(got[0]) != fmt.Sprint(r) {
		t.Fatalf("%v, %v", got, err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
