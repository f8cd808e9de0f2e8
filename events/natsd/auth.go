package natsd

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"

	"github.com/nats-io/nats-server/v2/server"
)

// Users of this process, all with the password that exists only in memory.
const (
	relayUser   = "relay"
	probeUser   = "probe"
	serviceUser = "service"
)

// authenticator decides who comes in, and as which user.
type authenticator struct {
	relay, probe, service, guest *server.User

	password            string // of relay, probe and service
	user, secret, token string // what guests have to show
	open                bool   // guests have to show nothing
}

func newAuthenticator(o Options, password string) *authenticator {
	return &authenticator{
		relay:    &server.User{Username: relayUser},
		probe:    &server.User{Username: probeUser},
		service:  &server.User{Username: serviceUser, Permissions: serviceLimits(o)},
		guest:    &server.User{Username: "guest", Permissions: guestLimits(o)},
		password: password,
		user:     o.GuestUser, secret: o.GuestPassword, token: o.GuestToken,
		open: o.open(),
	}
}

// attach gives the users their accounts, which exist only once the server does.
func (d *authenticator) attach(s *server.Server) error {
	for name, users := range map[string][]*server.User{account: {d.relay, d.service, d.guest}, probeAccount: {d.probe}} {
		a, err := s.LookupAccount(name)
		if err != nil {
			return fmt.Errorf("account %s: %w", name, err)
		}
		for _, u := range users {
			u.Account = a
		}
	}
	return nil
}

// Check implements server.Authentication.
func (d *authenticator) Check(c server.ClientAuthentication) bool {
	shown := c.GetOpts()
	switch {
	case c.Kind() != server.CLIENT:
		return false
	case same(shown.Username, relayUser) && same(shown.Password, d.password):
		c.RegisterUser(d.relay)
	case same(shown.Username, probeUser) && same(shown.Password, d.password):
		c.RegisterUser(d.probe)
	case same(shown.Username, serviceUser) && same(shown.Password, d.password):
		c.RegisterUser(d.service)
	case d.admits(shown):
		c.RegisterUser(d.guest)
	default:
		return false
	}
	return true
}

func (d *authenticator) admits(shown *server.ClientOpts) bool {
	if d.open {
		return shown.Username == "" && shown.Password == "" && shown.Token == ""
	}
	if d.token != "" && same(shown.Token, d.token) {
		return true
	}
	return d.user+d.secret != "" && same(shown.Username, d.user) && same(shown.Password, d.secret)
}

// same compares in constant time, also texts of different lengths.
func same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// guestLimits is what guests may not do. What is left open: all of $JS.API.INFO, STREAM.INFO, STREAM.NAMES, STREAM.LIST,
// STREAM.MSG.GET, DIRECT.GET and of CONSUMER what is needed to make, use and delete a consumer.
func guestLimits(o Options) *server.Permissions {
	// No stream at all may be made or changed: a stream can republish what it stores anywhere, a snapshot can be
	// delivered anywhere, a restore can bring a stream in by the back door.
	denied := []string{
		"$JS.API.STREAM.CREATE.>", "$JS.API.STREAM.UPDATE.>", "$JS.API.STREAM.RESTORE.>", "$JS.API.STREAM.SNAPSHOT.>",
		"$JS.SNAPSHOT.>",
		"$JS.API.STREAM.DELETE.>", "$JS.API.STREAM.PURGE.>", "$JS.API.STREAM.MSG.DELETE.>",
		"$JS.API.STREAM.PEER.>", "$JS.API.STREAM.LEADER.>", "$JS.API.STREAM.CANCEL_MOVE.>",
		"$JS.API.CONSUMER.LEADER.>", "$JS.API.CONSUMER.PEER.>",
		"$JS.API.META.>", "$JS.API.SERVER.>", "$JS.API.ACCOUNT.>",
		relayInbox + ".>",
	}
	if o.ProtectedSubjects != "" {
		denied = append(denied, o.ProtectedSubjects)
	}
	denied = append(denied, o.OwnSubjects...)
	return &server.Permissions{
		Publish:   &server.SubjectPermission{Deny: denied},
		Subscribe: &server.SubjectPermission{Deny: append([]string{relayInbox + ".>"}, o.ServiceSubjects...)},
	}
}

// serviceLimits is what a service may do.
func serviceLimits(o Options) *server.Permissions {
	return &server.Permissions{
		Publish:   &server.SubjectPermission{Allow: []string{"_INBOX.>"}},
		Subscribe: &server.SubjectPermission{Allow: append([]string{"$SRV.>"}, o.ServiceSubjects...)},
	}
}
