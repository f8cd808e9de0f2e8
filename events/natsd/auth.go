package natsd

import (
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"slices"

	"github.com/nats-io/nats-server/v2/server"
)

// relayUser is this process. Its password exists only in memory.
const relayUser = "relay"

// authenticator decides which clients may connect, and as which user.
type authenticator struct{ logins []login }

// login is what a client has to show: name and password, or a token.
type login struct {
	name, password, token string
	user                  *server.User
}

// admit fills it in, once the server has the accounts.
func (d *authenticator) admit(o Options, password string, s *server.Server) error {
	streams, err := s.LookupAccount(account)
	if err != nil {
		return fmt.Errorf("account: %w", err)
	}
	guest := &server.User{Username: "guest", Account: streams, Permissions: guestLimits(o)}
	d.logins = []login{
		{relayUser, password, "", &server.User{Username: relayUser, Account: streams}},
	}
	if o.GuestToken != "" {
		d.logins = append(d.logins, login{"", "", o.GuestToken, guest})
	}
	if o.open() || o.GuestUser+o.GuestPassword != "" {
		d.logins = append(d.logins, login{o.GuestUser, o.GuestPassword, "", guest})
	}
	return nil
}

// Check implements server.Authentication.
func (d *authenticator) Check(c server.ClientAuthentication) bool {
	shown := c.GetOpts()
	i := slices.IndexFunc(d.logins, func(l login) bool {
		if l.token != "" {
			return same(shown.Token, l.token)
		}
		return same(shown.Username, l.name) && same(shown.Password, l.password)
	})
	if i < 0 || c.Kind() != server.CLIENT {
		return false
	}
	c.RegisterUser(d.logins[i].user)
	return true
}

// same compares in constant time, also texts of different lengths.
func same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// guestLimits returns what guests may not do. They may use $JS.API.INFO, STREAM.INFO, STREAM.NAMES,
// STREAM.LIST, STREAM.MSG.GET, DIRECT.GET, and what it takes to make, use and delete a consumer.
func guestLimits(o Options) *server.Permissions {
	// No stream at all may be made or changed: a stream can republish what it stores anywhere, a
	// snapshot can be delivered anywhere, a restore can bring a stream in by the back door.
	denied := []string{
		"$JS.API.STREAM.CREATE.>", "$JS.API.STREAM.UPDATE.>", "$JS.API.STREAM.RESTORE.>",
		"$JS.API.STREAM.SNAPSHOT.>", "$JS.SNAPSHOT.>",
		"$JS.API.STREAM.DELETE.>", "$JS.API.STREAM.PURGE.>", "$JS.API.STREAM.MSG.DELETE.>",
		"$JS.API.STREAM.PEER.>", "$JS.API.STREAM.LEADER.>", "$JS.API.STREAM.CANCEL_MOVE.>",
		"$JS.API.CONSUMER.LEADER.>", "$JS.API.CONSUMER.PEER.>",
		"$JS.API.META.>", "$JS.API.SERVER.>", "$JS.API.ACCOUNT.>",
		relayInbox + ".>",
	}
	return &server.Permissions{
		Publish:   &server.SubjectPermission{Deny: append(denied, o.Protected...)},
		Subscribe: &server.SubjectPermission{Deny: []string{relayInbox + ".>"}},
	}
}
