package daemon

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"doorbell/cmd/doorbell/ops"
	"doorbell/events/relay"
	"doorbell/poller"
)

// at asks a daemon over its socket.
func at[Q, A any](t *testing.T, d *Daemon, verb ops.Verb[Q, A], q Q) (A, error) {
	t.Helper()
	return verb.Ask(t.Context(), ops.NewClient(filepath.Join(d.o.DataDir, SocketFile)), q)
}

func halted(t *testing.T, d *Daemon, id string) func() bool {
	return func() bool {
		return slices.ContainsFunc(seen(t, d).Watch.Agencies, func(a poller.AgencyStatus) bool { return a.AgencyID == id && a.State == "halted" })
	}
}

// TestWhatConcernsAnAgencyItsOwnerDoesWhicheverMemberIsAsked asks the member that does not own an agency.
func TestWhatConcernsAnAgencyItsOwnerDoesWhicheverMemberIsAsked(t *testing.T) {
	s := newShared(t)
	one, _ := s.join(s.dir())
	eventually(t, "one watches all", func() bool { return len(owned(one)) == len(sharedAgencies) })
	s.write()
	s.told()
	two, _ := s.join(s.dir())
	owner, other := settled(t, "A100", one, two)
	q := ops.AgencyRequest{AgencyID: "A100"}
	eventually(t, "it polls all insertions", func() bool {
		done, err := at(t, other, ops.Poll, q)
		return err == nil && done.Of == 4
	})
	if a, err := at(t, other, ops.Approve, q); err != nil || a.Held {
		t.Errorf("approve: %+v %v", a, err)
	}
	if a, err := at(t, other, ops.TakeOver, q); err != nil || a.Taken {
		t.Errorf("takeover: %+v %v", a, err)
	}
	if _, err := at(t, other, ops.Poll, ops.AgencyRequest{AgencyID: "D400"}); !errors.Is(err, poller.ErrUnknownAgency) {
		t.Errorf("poll of what nobody watches: %v", err)
	}
	for _, id := range []string{"A100", poller.AllAgencies} {
		if err := s.model.UnlinkKey(testKey, "A100"); err != nil {
			t.Fatal(err)
		}
		eventually(t, "the owner is refused", halted(t, owner, "A100"))
		s.model.AddKey(testKey, sharedAgencies...)
		if a, err := at(t, other, ops.Resume, ops.AgencyRequest{AgencyID: id}); err != nil || a.Ended != 1 {
			t.Errorf("resume %s: %+v %v", id, a, err)
		}
		eventually(t, "it is polled again", func() bool { return !halted(t, owner, "A100")() })
	}

	// What a member was asked for it does not pass on, and it does nothing but that.
	away := other.member(other.store.ID())
	if _, err := ops.Poll.Ask(t.Context(), away, q); !errors.Is(err, ops.ErrElsewhere) || !strings.Contains(err.Error(), "does not own A100") {
		t.Errorf("a member that does not own it: %v", err)
	}
	if _, err := ops.Resend.Ask(t.Context(), owner.member(owner.store.ID()), q); err == nil || errors.Is(err, ops.ErrNoAnswer) {
		t.Errorf("a verb that is not for others: %v", err)
	}
	elsewhere, err := one.conn.SubscribeSync("elsewhere")
	if err != nil {
		t.Fatal(err)
	}
	subject := "listings.admin.member." + owner.store.ID() + ".poll"
	if err := one.conn.PublishRequest(subject, "elsewhere", []byte(`{"agencyId":"A100"}`)); err != nil {
		t.Fatal(err)
	}
	if _, err := ops.Poll.Ask(t.Context(), owner.member(owner.store.ID()), q); err != nil {
		t.Errorf("poll: %v", err)
	}
	if err := one.conn.Flush(); err != nil {
		t.Fatal(err)
	}
	if n, _, err := elsewhere.Pending(); err != nil || n > 0 {
		t.Errorf("%d answers to what is no inbox: %v", n, err)
	}

	// Whoever has no owner, or one that does not answer, is not steered; the error says so.
	if _, err := ops.Poll.Ask(t.Context(), owner.member("nobody"), q); !errors.Is(err, ops.ErrNoAnswer) {
		t.Errorf("nobody: %v", err)
	}
	other.sharing.see("A100", relay.Head{Owner: "nobody", Epoch: 99})
	if _, err := at(t, other, ops.Poll, q); !errors.Is(err, ops.ErrElsewhere) {
		t.Errorf("an agency without an owner: %v", err)
	}
}

// TestAReleasedAgencyIsAnotherMembersAndStaysSo releases an agency at the member that does not own it, and again at the next one.
func TestAReleasedAgencyIsAnotherMembersAndStaysSo(t *testing.T) {
	s := newShared(t)
	one, _ := s.join(s.dir())
	eventually(t, "one watches all", func() bool { return len(owned(one)) == len(sharedAgencies) })
	q := ops.AgencyRequest{AgencyID: "A100"}
	if _, err := at(t, one, ops.Release, q); !errors.Is(err, ops.ErrNoOther) {
		t.Errorf("released where there is no other member: %v", err)
	}
	two, _ := s.join(s.dir())
	owner, other := settled(t, "A100", one, two)
	s.write()
	a, err := at(t, other, ops.Release, q)
	if err != nil || !a.Released {
		t.Fatalf("%+v %v", a, err)
	}
	eventually(t, "the other one polls it", func() bool { return slices.Contains(owned(other), "A100") && !slices.Contains(owned(owner), "A100") })
	s.write()
	s.told()
	member := owner.sharing.member.Load()
	if wanted := member.Wanted("A100"); wanted != other.store.ID() || other.sharing.member.Load().Release("A100") {
		t.Errorf("it should be of %s again", wanted)
	}
	if _, err := at(t, owner, ops.Release, ops.AgencyRequest{AgencyID: "D400"}); !errors.Is(err, poller.ErrUnknownAgency) {
		t.Errorf("of an agency that nobody watches: %v", err)
	}
}
