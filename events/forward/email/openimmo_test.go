package email

import (
	"encoding/xml"
	"slices"
	"strings"
	"testing"

	"doorbell/events"
	"doorbell/events/forward"
	"doorbell/events/forward/forwardtest"
)

// order is what OpenImmo feedback 1.2.5 allows below an element, in its order, and which of it must be there. It is written
// down from the classes that a public Java library has of the schema. later are elements that 1.2.3 does not know.
var order = map[string][]string{
	"openimmo_feedback": {"version!", "sender!", "objekt*"},
	"sender":            {"name!", "openimmo_anid", "datum!", "makler_id!", "regi_id"},
	"objekt": {
		"portal_unique_id", "portal_obj_id", "anbieter_id", "oobj_id!", "zusatz_refnr", "expose_url", "vermarktungsart", "bezeichnung",
		"etage", "whg_nr", "strasse", "ort", "land", "stadtbezirk", "preis", "gebot", "wae", "anzahl_zimmer", "flaeche", "interessent!",
	},
	"interessent": {
		"int_id", "anrede", "vorname", "nachname", "firma", "strasse", "postfach", "plz", "ort", "tel", "fax", "mobil", "email",
		"bevorzugt!", "wunsch!", "anfrage",
	},
}

var later123 = []string{"land", "stadtbezirk", "anzahl_zimmer", "flaeche", "regi_id"}

// node is an element of any XML.
type node struct {
	XMLName  xml.Name
	Text     string `xml:",chardata"`
	Children []node `xml:",any"`
}

// follows fails where an element breaks the order.
func (n node) follows(t *testing.T) {
	t.Helper()
	allowed, known := order[n.XMLName.Local]
	if !known {
		if len(n.Children) > 0 {
			t.Errorf("%s has elements", n.XMLName.Local)
		}
		return
	}
	at := 0
	for _, rule := range allowed {
		name := strings.TrimRight(rule, "!*")
		count := 0
		for at < len(n.Children) && n.Children[at].XMLName.Local == name {
			n.Children[at].follows(t)
			at, count = at+1, count+1
		}
		if strings.HasSuffix(rule, "!") && count == 0 || !strings.HasSuffix(rule, "*") && count > 1 {
			t.Errorf("%s: %d of %s", n.XMLName.Local, count, name)
		}
		if count > 0 && slices.Contains(later123, name) {
			t.Errorf("%s: 1.2.3 does not know %s", n.XMLName.Local, name)
		}
	}
	if at < len(n.Children) {
		t.Errorf("%s: %s is out of place", n.XMLName.Local, n.Children[at].XMLName.Local)
	}
}

// TestTheFeedbackFollowsTheOrderOfOpenImmo also wants one with a new contact request, and no other event.
func TestTheFeedbackFollowsTheOrderOfOpenImmo(t *testing.T) {
	o := newReceiver(t, nil)
	all := []forward.Delivery{{Events: []events.Event{forwardtest.Example(t, events.TypeContactRequestCreated).Erase()}}}
	for _, s := range forwardtest.Samples(t) {
		all = append(all, s.Delivery)
	}
	for _, text := range forwardtest.Hostile {
		all = append(all, forwardtest.Everywhere(t, text, events.TypeContactRequestCreated))
	}
	for i, d := range all {
		file := composed(t, o, d).file
		is := i > 0 && len(d.Events) == 1 && d.Events[0].Type == events.TypeContactRequestCreated
		if is != (len(file) > 0) {
			t.Errorf("%d events of %s: a feedback of %d bytes", len(d.Events), d.Events[0].Type, len(file))
		}
		var n node
		if err := xml.Unmarshal(file, &n); is && err != nil {
			t.Fatalf("%v\n%.500s", err, file)
		}
		n.follows(t)
	}
	o.OpenImmo = false
	if len(composed(t, o, delivery(t)).file) > 0 {
		t.Error("a feedback that was not requested")
	}
}

func TestThePreferredWayIsOneThatExists(t *testing.T) {
	for _, row := range []struct{ email, phone, raw, want, tel, mobil string }{
		{"a@b.example", "", "", "EMAIL", "", ""},
		{"", "+41440000000", "044 000 00 00", "TEL", "+41440000000", ""},
		{"", "+41790000000", "079 000 00 00", "MOBIL", "", "+41790000000"},
		{"", "", "call my neighbour", "TEL", "call my neighbour", ""},
		{"", "", "", "BRIEF", "", ""},
	} {
		i := interessentOf(&events.ContactRequestCreated{Contact: events.Contact{Email: row.email, Phone: row.phone, PhoneRaw: row.raw}}, "")
		if i.Bevorzugt != row.want || i.Tel != row.tel || i.Mobil != row.mobil || i.Wunsch != "DETAIL" {
			t.Errorf("%+v: %+v", row, i)
		}
	}
}
