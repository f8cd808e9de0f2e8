package forward

import (
	"fmt"
	"testing"
	"time"

	"doorbell/events"
	"doorbell/events/natsd"

	"github.com/nats-io/nats.go/jetstream"
)

func TestTypesThatAreAddedBeginWithWhatIsNew(t *testing.T) {
	bubble(t, func(t *testing.T) {
		dir := t.TempDir()
		open := func() *natsd.Server {
			server, err := natsd.Start(t.Context(), natsd.Options{StoreDir: dir, Listen: "off", ProtectedSubjects: "listings.v1.>"})
			if err != nil {
				t.Fatal(err)
			}
			return server
		}
		s := newScript("a", 20)
		first := open()
		w := worldOn(t, first)
		w.o.Routes = []Route{leadsTo(s)}
		gone := func() {
			w.publish(w.stamp(&events.InsertionDisappeared{Common: events.Common{AgencyID: "A100", ObservedAt: time.Now()}, PropertyReferenceID: fmt.Sprint(len(w.history))}))
		}
		w.run(time.Minute, func() { w.lead("A100") }, func() {
			for range 50 {
				gone()
			}
		})
		time.Sleep(24 * time.Hour)
		w.nc.Close()
		first.Shutdown() // as with the daemon, which is started anew for another configuration
		second := open()
		defer second.Shutdown()
		var err error
		if w.nc, err = second.Connect("test"); err != nil {
			t.Fatal(err)
		}
		defer w.nc.Close()
		w.js, err = jetstream.New(w.nc)
		if err != nil {
			t.Fatal(err)
		}
		w.o.Conn.Conn = w.nc
		w.o.Routes = []Route{{Receiver: s, Filter: Filter{Types: []string{"contact_request.created", "insertion.disappeared"}}}}
		w.run(time.Hour, gone)
		if len(s.ids()) != 2 {
			t.Errorf("%d events came, want 2", len(s.ids()))
		}
	})
}
