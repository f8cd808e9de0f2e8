package page

import (
	"bytes"
	"flag"
	"image/png"
	"io"
	"mime"
	"mime/multipart"
	"mime/quotedprintable"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

var takePictures = flag.Bool("pictures", false, "take the README's pictures of the page and of a mail anew")

// leadMail is a mail as the e-mail receiver's tests hold it.
const leadMail = "../../../../events/forward/email/testdata/contact_request.created.eml"

// TestThePicturesOfTheREADMEAreThere: with -pictures it takes them.
func TestThePicturesOfTheREADMEAreThere(t *testing.T) {
	if *takePictures {
		b := browser(t)
		status, list := busyScene(time.Now())
		s := newSite(t, status, list)
		p := open(t, b, s.URL, size(1280))
		p.until("document.getElementById('tail-state').textContent === 'connected'")
		p.take("page.png")
		html := htmlOf(t, leadMail)
		letter := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			io.WriteString(w, html) //nolint:errcheck // the browser is here
		}))
		t.Cleanup(letter.Close)
		open(t, b, letter.URL, chromedp.EmulateViewport(640, 100)).take("lead.png")
	}
	for _, name := range []string{"page.png", "lead.png"} {
		data, err := os.ReadFile(filepath.Join("pictures", name))
		if err != nil {
			t.Fatal(err)
		}
		if c, err := png.DecodeConfig(bytes.NewReader(data)); err != nil || c.Width < 600 || len(data) > 400<<10 {
			t.Errorf("%s: %v, %v, %d bytes", name, err, c, len(data))
		}
	}
}

// take makes a picture of all that the tab shows.
func (p *tab) take(name string) {
	p.Helper()
	picture, err := chromedp.Run(p.ctx, chromedp.FullScreenshot(100))
	if err != nil {
		p.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join("pictures", name), picture, 0o644); err != nil {
		p.Fatal(err)
	}
}

// htmlOf is the part of a mail that people see.
func htmlOf(t *testing.T, path string) string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	m, err := mail.ReadMessage(f)
	if err != nil {
		t.Fatal(err)
	}
	html := part(t, m.Header.Get("Content-Type"), m.Header.Get("Content-Transfer-Encoding"), m.Body)
	if html == "" {
		t.Fatal("the mail has no HTML")
	}
	return html
}

func part(t *testing.T, contentType, encoding string, body io.Reader) string {
	t.Helper()
	kind, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		t.Fatal(err)
	}
	if kind == "text/html" {
		if strings.EqualFold(encoding, "quoted-printable") {
			body = quotedprintable.NewReader(body)
		}
		data, err := io.ReadAll(body)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	if !strings.HasPrefix(kind, "multipart/") {
		return ""
	}
	for all := multipart.NewReader(body, params["boundary"]); ; {
		one, err := all.NextRawPart()
		if err != nil {
			return ""
		}
		if html := part(t, one.Header.Get("Content-Type"), one.Header.Get("Content-Transfer-Encoding"), one); html != "" {
			return html
		}
	}
}
