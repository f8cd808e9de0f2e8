package email

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"doorbell/schemas/skiptest"

	"doorbell/events"
	"doorbell/events/forward"
	"doorbell/events/forward/forwardtest"
)

// reading is what Python finds in a mail: another SMTP server, another parser.
type reading struct {
	From        string      `json:"from"`
	To          []string    `json:"to"`
	Headers     [][2]string `json:"headers"`
	ToAddresses []string    `json:"toAddresses"`
	ReplyTo     []string    `json:"replyTo"`
	Parts       []struct {
		Type    string   `json:"type"`
		File    string   `json:"file"`
		Text    string   `json:"text"`
		Defects []string `json:"defects"`
	} `json:"parts"`
	Defects []string `json:"defects"`
	Longest int      `json:"longest"`
	ASCII   bool     `json:"ascii"`
	Bare    bool     `json:"bare"`
}

func (r reading) header(name string) string {
	for _, h := range r.Headers {
		if strings.EqualFold(h[0], name) {
			return h[1]
		}
	}
	return ""
}

// judge starts Debian's aiosmtpd, and returns its address and what it reads.
func judge(t *testing.T) (address string, readings func() reading) {
	t.Helper()
	python := "/usr/bin/python3" // Debian's, which sees Debian's packages
	if exec.Command(python, "-c", "import aiosmtpd").Run() != nil {
		skiptest.Skipf(t, "aiosmtpd is not here: apt-get install python3-aiosmtpd")
	}
	c := exec.Command(python, "testdata/receive.py")
	in, err := c.StdinPipe()
	must(t, err)
	out, err := c.StdoutPipe()
	must(t, err)
	c.Stderr = os.Stderr
	said := make(chan string, 8)
	must(t, c.Start())
	t.Cleanup(func() {
		_ = in.Close()
		for range said { // until it has ended
		}
		_ = c.Wait()
	})
	go func() { // reads while a mail is sent: a pipe holds less than what is read in some
		defer close(said)
		for r := bufio.NewReader(out); ; {
			text, err := r.ReadString('\n')
			if err != nil {
				return
			}
			said <- strings.TrimSpace(text)
		}
	}()
	next := func() string {
		text, ok := <-said
		if !ok {
			t.Fatal("the judge has exited")
		}
		return text
	}
	return "127.0.0.1:" + next(), func() (r reading) {
		must(t, json.Unmarshal([]byte(next()), &r))
		return r
	}
}

func TestAnotherServerAndAnotherParserReadEveryMail(t *testing.T) {
	address, read := judge(t)
	o := newReceiver(t, func(o *Options) { o.SMTP = "smtp://" + address })
	all := map[string]forward.Delivery{}
	for _, s := range forwardtest.Samples(t) {
		all[s.Name] = s.Delivery
	}
	for i, text := range forwardtest.Hostile {
		all["hostile "+string(rune('A'+i))] = forwardtest.Everywhere(t, text, events.TypeContactRequestCreated)
		all["hostile list "+string(rune('A'+i))] = forwardtest.Everywhere(t, text, events.TypeContactRequestChanged, events.TypeInsertionReappeared)
	}
	for name, d := range all {
		if err := o.Send(t.Context(), d); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		r := read()
		if len(r.Defects) > 0 || !r.ASCII || r.Bare || r.Longest > 200 {
			t.Errorf("%s: defects %q, ASCII %t, bare line ends %t, longest line %d", name, r.Defects, r.ASCII, r.Bare, r.Longest)
		}
		if want := []string{"office@agency.example"}; !slices.Equal(r.ToAddresses, want) || !slices.Equal(r.To, want) || r.From != "doorbell@agency.example" {
			t.Errorf("%s: for %q and %q from %q", name, r.To, r.ToAddresses, r.From)
		}
		if r.header("Auto-Submitted") != "auto-generated" || len(r.Headers) > len(headers) {
			t.Errorf("%s: headers %q", name, r.Headers)
		}
		if len(r.Parts) < 2 || r.Parts[0].Type != "text/plain" || r.Parts[1].Type != "text/html" {
			t.Errorf("%s: parts %+v", name, r.Parts)
		}
		for _, p := range r.Parts {
			if len(p.Defects) > 0 {
				t.Errorf("%s: %s: %q", name, p.Type, p.Defects)
			}
			if name == string(events.TypeContactRequestCreated) && !strings.Contains(p.Text, "Ich könnte am Samstag vorbeikommen.") {
				t.Errorf("the %s lacks the message", p.Type)
			}
		}
		if subject := "Frau Nora Beispiel, Helle 3.5-Zimmerwohnung im Seefeld, 8008 Zürich"; name == string(events.TypeContactRequestCreated) &&
			(len(r.Parts) != 3 || r.header("Subject") != subject || !slices.Equal(r.ReplyTo, []string{"nora.beispiel@example.org"})) {
			t.Errorf("a lead: %+v", r)
		}
	}
}
