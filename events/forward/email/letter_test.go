package email

import (
	"strings"
	"testing"
	"testing/synctest"
)

func TestALetterArrivesWithItsFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{}
		o := s.receiver(t, func(o *Options) { o.Instance = "staging" })
		l := Letter{
			Key: "week 1", Subject: "Wöchentlich\r\nBcc: x@example.org", Text: "AGENCY   SEEN\nA<b>        1\n",
			FileName: "leads.csv", FileType: "text/csv", File: []byte("\ufeffa;b\r\n1;'=2\r\n"),
		}
		for range 2 {
			if err := o.SendLetter(t.Context(), l); err != nil {
				t.Fatal(err)
			}
		}
		h, parts := read(t, []byte(s.mails[0]))
		if text := parts["text/plain"]; !strings.Contains(text, "AGENCY   SEEN") {
			t.Errorf("text: %q", text)
		}
		if html := parts["text/html"]; !strings.Contains(html, "<pre>AGENCY   SEEN") || strings.Contains(html, "<b>") {
			t.Errorf("html: %q", html)
		}
		if file := parts["text/csv"]; file != string(l.File) {
			t.Errorf("the file is %q", file)
		}
		if h.Get("Bcc") != "" || !strings.Contains(s.mails[0], "staging") || h.Get("Auto-Submitted") != "auto-generated" {
			t.Errorf("header: %v", h)
		}
		again, _ := read(t, []byte(s.mails[1]))
		if id := h.Get("Message-Id"); id == "" || again.Get("Message-Id") != id {
			t.Errorf("sent again, %q is %q", id, again.Get("Message-Id"))
		}
		s.says = map[string]string{"RCPT": "550 5.1.1 nobody-zq7 here"}
		if err := o.SendLetter(t.Context(), l); outcome(err) == taken {
			t.Error("a refused recipient counts as taken")
		} else {
			tellsNothing(t, err)
		}
	})
}
