package cli

import (
	"context"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"doorbell/cmd/doorbell/doorbelltest"
	"doorbell/cmd/doorbell/exit"
	"doorbell/schemas/skiptest"

	"github.com/chromedp/chromedp"
)

// window is a tab of a real Chromium. DOORBELL_TEST_CHROMIUM names another than the one in PATH.
type window struct {
	*testing.T
	ctx      context.Context
	complain func() []string // what the browser has logged so far
}

func openWindow(t *testing.T, url string) *window {
	t.Helper()
	path := os.Getenv("DOORBELL_TEST_CHROMIUM")
	if path == "" {
		var err error
		if path, err = exec.LookPath("chromium"); err != nil {
			skiptest.Skipf(t, "there is no chromium here; install Debian's package of that name, or name another in DOORBELL_TEST_CHROMIUM")
		}
	}
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(t.TempDir()),
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-component-update", true))
	allocated, release := chromedp.NewExecAllocator(context.Background(), opts...)
	t.Cleanup(release)
	ctx, end := chromedp.NewContext(allocated)
	t.Cleanup(end)
	must(t, chromedp.Do(ctx))
	limited, cancel := context.WithTimeout(ctx, 2*time.Minute)
	t.Cleanup(cancel)
	w := &window{T: t, ctx: limited}
	listening, stop := context.WithCancel(ctx)
	messages := chromedp.Console(listening)
	w.complain = func() (said []string) {
		stop()
		for m, err := range messages {
			if err != nil {
				break
			}
			if m.IsException() || m.Type == "error" || m.Type == "warning" {
				said = append(said, m.String())
			}
		}
		return said
	}
	w.do(chromedp.EmulateViewport(390, 900), chromedp.Navigate(url))
	return w
}

func (w *window) do(steps ...chromedp.Action[chromedp.Void]) {
	w.Helper()
	if err := chromedp.Do(w.ctx, steps...); err != nil {
		w.Fatal(err)
	}
}

func (w *window) text(expression string) string {
	w.Helper()
	text, err := chromedp.Run(w.ctx, chromedp.Evaluate[string]("String("+expression+")"))
	if err != nil {
		w.Fatalf("%s: %v", expression, err)
	}
	return text
}

// until waits until an expression is true, across page loads.
func (w *window) until(expression string) {
	w.Helper()
	for {
		held, err := chromedp.Run(w.ctx, chromedp.Evaluate[bool]("Boolean("+expression+")"))
		switch {
		case err == nil && held:
			return
		case w.ctx.Err() != nil:
			w.Fatalf("%s: did not appear", expression)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func TestThePageShowsAHaltAndItsEnd(t *testing.T) {
	t.Parallel()
	s := doorbelltest.NewScene(t, "A100", "B200")
	d := doorbelltest.Launch(t, s.With("DOORBELL_HTTP_TOKEN="+doorbelltest.PageToken, "DOORBELL_AGENCY_NAMES=A100=Muster Immobilien AG"), "run")
	url := pageURL(t, s.Dir)
	w := openWindow(t, strings.Replace(url, "://", "://anybody:"+doorbelltest.PageToken+"@", 1)+"/v1/status") // as the browser's prompt does
	w.do(chromedp.Navigate(url))
	w.until("document.getElementById('headline-text')?.textContent === 'All is well'")

	s.Ring(t, "A100")
	w.until("document.querySelector('#tail-list li.contact_request')?.textContent.includes('A100 Muster Immobilien AG')")

	must(t, s.Model.UnlinkKey(doorbelltest.TestKey, "B200"))
	w.until("document.title.startsWith('■ B200 is halted: ')")
	w.until("document.querySelector('.problem .command code')?.textContent === 'doorbell resume B200'")
	s.Model.AddKey(doorbelltest.TestKey, "B200")
	if got := doorbelltest.Run(t, s.Environ, "resume", "B200"); got.Code != exit.Done {
		t.Fatal(got.Stderr)
	}
	w.until("document.title === '2 agencies – doorbell' && document.getElementById('headline-text').textContent === 'All is well'")
	s.GoesOn(t, "B200", 3)

	if over := w.text("document.documentElement.scrollWidth - innerWidth"); over != "0" {
		t.Errorf("%s too wide for a phone", over)
	}
	page := w.text("document.documentElement.outerHTML + document.cookie")
	if strings.Contains(page, doorbelltest.PageToken) {
		t.Error("the page holds the token")
	}
	doorbelltest.HoldsNobody(t, page)
	if said := w.complain(); len(said) > 0 {
		t.Errorf("the browser says %.500q", said)
	}
	d.Stop(t)
}
