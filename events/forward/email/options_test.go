package email

import (
	"regexp"
	"strings"
	"testing"
)

func TestBadOptionsAreRefusedInAClearSentence(t *testing.T) {
	good := Options{SMTP: "smtp://mail.agency.example", From: "doorbell@agency.example", To: "office@agency.example"}
	for _, row := range []struct {
		name   string
		change func(*Options)
		want   string
	}{
		{"no server", func(o *Options) { o.SMTP = "" }, "SMTP server: want smtp://"},
		{"no scheme", func(o *Options) { o.SMTP = "mail.secret.example:587" }, "SMTP server: want smtp://"},
		{"another scheme", func(o *Options) { o.SMTP = "https://mail.secret.example" }, "SMTP server: want smtp://"},
		{"no URL", func(o *Options) { o.SMTP = "smtp://secret\x7f" }, "SMTP server: want smtp://"},
		{"no host", func(o *Options) { o.SMTP = "smtp://:587" }, "SMTP server: want smtp://"},
		{"a password with a line end", func(o *Options) { o.SMTP, o.Password = "smtp://leads@mail.example", "secret\n" }, "line end"},
		{"no sender", func(o *Options) { o.From = "" }, "mail sender: want one address"},
		{"a sender that is none", func(o *Options) { o.From = "secret" }, "mail sender: want one address"},
		{"two senders", func(o *Options) { o.From = "secret@a.example, secret@b.example" }, "mail sender: want one address"},
		{"a sender with a header", func(o *Options) { o.From = "secret@a.example\r\nBcc: x@b.example" }, "mail sender: want one address"},
		{"a recipient that is none", func(o *Options) { o.To = "secret" }, "want one address"},
		{"a recipient with a line end", func(o *Options) { o.To = "secret@agency.example\nRCPT TO:<x@y.example>" }, "want one address"},
		{"a recipient in other letters", func(o *Options) { o.To = "secret@bücher.example" }, "xn--"},
		{"a recipient without a domain", func(o *Options) { o.To = "secret@-" }, "want one address"},
		{"a recipient that is too long", func(o *Options) { o.To = strings.Repeat("s", 65) + "@agency.example" }, "want one address"},
		{"a name that is none", func(o *Options) { o.Name = "se cret" }, "name of a forwarder"},
	} {
		o := good
		row.change(&o)
		_, err := New(o)
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %v, want %q", row.name, err, row.want)
		}
		if err != nil && (strings.Contains(err.Error(), "secret") || strings.ContainsAny(err.Error(), "\r\n")) {
			t.Errorf("%s: the error quotes: %v", row.name, err)
		}
	}
	if _, err := New(good); err != nil {
		t.Error(err)
	}
}

func TestServersAreReadAsPeopleWriteThem(t *testing.T) {
	for _, row := range []struct {
		address, password string
		allowed           []string
		want              server
	}{
		{"smtp://mail.agency.example", "", nil, server{host: "mail.agency.example", port: "587"}},
		{" smtps://MAIL.agency.example/ ", "", nil, server{host: "mail.agency.example", port: "465", implicit: true}},
		{"smtp://me@agency.example@mail.agency.example:25", "pw", nil, server{host: "mail.agency.example", port: "25", user: "me@agency.example", password: "pw"}},
		{"smtp://me%40agency.example@mail.agency.example", "pw", nil, server{host: "mail.agency.example", port: "587", user: "me@agency.example", password: "pw"}},
		{"smtp://127.0.0.1:1025", "", nil, server{host: "127.0.0.1", port: "1025", loopback: true, plaintext: true}},
		{"smtp://[::1]:1025", "", nil, server{host: "::1", port: "1025", loopback: true, plaintext: true}},
		{"smtp://localhost", "", nil, server{host: "localhost", port: "587", loopback: true, plaintext: true}},
		{"smtp://localhost.agency.example", "", nil, server{host: "localhost.agency.example", port: "587"}},
		{"smtp://mail.house", "", []string{"other", "Mail.House"}, server{host: "mail.house", port: "587", plaintext: true}},
		{"smtp://mail.house.example", "", []string{"mail.house"}, server{host: "mail.house.example", port: "587"}},
	} {
		got, err := parseServer(row.address, row.password, row.allowed)
		if err != nil || got != row.want {
			t.Errorf("%s: %+v, %v", row.address, got, err)
		}
	}
}

func TestADestinationNamesTheHostAndNobody(t *testing.T) {
	one := newReceiver(t, nil).Traits()
	if !regexp.MustCompile(`^mail_agency_example-[0-9a-f]{16}$`).MatchString(one.Destination) || one.Pace <= 0 || one.Digest < 2 {
		t.Errorf("%+v", one)
	}
	same := newReceiver(t, func(o *Options) { o.OpenImmo, o.RootCAs = false, nil }).Traits()
	if same.Destination != one.Destination || same.LeadsAlone || !one.LeadsAlone {
		t.Errorf("%+v and %+v", one, same)
	}
	other := newReceiver(t, func(o *Options) { o.To = "office@other.example" }).Traits()
	if other.Destination == one.Destination {
		t.Error("two receivers, one destination")
	}
	rotated := newReceiver(t, func(o *Options) { o.SMTP, o.Password = "smtp://u@mail.agency.example:587", "one" }).Traits()
	again := newReceiver(t, func(o *Options) { o.SMTP, o.Password = "smtp://u@mail.agency.example:587", "two" }).Traits()
	if rotated != again {
		t.Error("a new password makes another destination")
	}
}
