package page

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"doorbell/schemas/skiptest"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"doorbell/cmd/doorbell/ops"
	"doorbell/events"
)

// policy is what the server of the page sends with it.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// site serves a scene that can be changed, as the daemon would.
type site struct {
	*httptest.Server
	mu     sync.Mutex
	status ops.Status
	list   []events.Event
}

func newSite(t *testing.T, status ops.Status, list []events.Event) *site {
	t.Helper()
	s := &site{status: status, list: list}
	page := Handler(Options{Status: s.now, Recent: s.recent, After: s.after})
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", policy)
		w.Header().Set("X-Content-Type-Options", "nosniff")
		page.ServeHTTP(w, r)
	}))
	t.Cleanup(s.stop)
	return s
}

func (s *site) stop() {
	s.CloseClientConnections()
	s.Close()
}

// now moves with the clock, as the daemon's status does.
func (s *site) now() (ops.Status, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status, nil
}

func (s *site) recent() []events.Event {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.list
}

func (s *site) after(position uint64) ([]events.Event, uint64, error) {
	return after(s.recent(), position)
}

// happen appends an event.
func (s *site) happen(e events.Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, e)
}

// browser is a real Chromium, for the length of a test. DOORBELL_TEST_CHROMIUM names another than the one in PATH.
func browser(t testing.TB) context.Context {
	t.Helper()
	path := os.Getenv("DOORBELL_TEST_CHROMIUM")
	if path == "" {
		var err error
		if path, err = exec.LookPath("chromium"); err != nil {
			skiptest.Skipf(t, "there is no chromium here; install Debian's package of that name, or name another in DOORBELL_TEST_CHROMIUM")
		}
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.UserDataDir(t.TempDir()))
	for _, flag := range []string{"disable-quic", "disable-component-update"} {
		options = append(options, chromedp.Flag(flag, true))
	}
	allocated, release := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(release)
	ctx, end := chromedp.NewContext(allocated)
	t.Cleanup(end)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	return ctx
}

// tab is one of its tabs.
type tab struct {
	*testing.T
	ctx context.Context
}

// open shows a page in a new tab. The test fails at its end if the browser complained about anything.
func open(t *testing.T, browser context.Context, url string, before ...chromedp.Action[chromedp.Void]) *tab {
	t.Helper()
	ctx, end := chromedp.NewContext(browser)
	t.Cleanup(end)
	p := &tab{t, ctx}
	p.do() // there is a tab now, whatever its time is
	limited, cancel := context.WithTimeout(ctx, 90*time.Second)
	t.Cleanup(cancel)
	p.ctx = limited
	listening, stop := context.WithCancel(ctx)
	messages := chromedp.Console(listening)
	t.Cleanup(func() {
		stop()
		for m, err := range messages {
			if err != nil {
				break
			}
			if m.IsException() || m.Type == "error" || m.Type == "warning" {
				t.Errorf("the browser says: %.300s", m)
			}
		}
	})
	p.do(append(before, chromedp.Navigate(url))...)
	return p
}

func (p *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	p.Helper()
	if err := chromedp.Do(p.ctx, steps...); err != nil {
		p.Fatal(err)
	}
}

// text is what an expression of the page says.
func (p *tab) text(expression string) string {
	p.Helper()
	text, err := chromedp.Run(p.ctx, chromedp.Evaluate[string]("String("+expression+")"))
	if err != nil {
		p.Fatalf("%s: %v", expression, err)
	}
	return text
}

// until waits for an expression to hold, and looks at every frame.
func (p *tab) until(expression string) {
	p.Helper()
	wait := "new Promise(done => { const look = () => (" + expression + ") ? done(true) : requestAnimationFrame(look); look() })"
	if _, err := chromedp.Run(p.ctx, chromedp.Evaluate[bool](wait, chromedp.EvalAwaitPromise)); err != nil {
		p.Fatalf("%s: %v; the page says %.500s", expression, err, p.text("document.body.innerText"))
	}
}

// renew lets the page look again at once.
func (p *tab) renew() {
	p.Helper()
	p.text("document.dispatchEvent(new Event('visibilitychange'))")
}

func size(width int64) chromedp.Action[chromedp.Void] { return chromedp.EmulateViewport(width, 800) }

// scheme is light or dark.
func scheme(name string) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}})
		return err
	})
}

var withoutScript = chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
	_, err := cdp.Call(ctx, t, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	return err
})

func TestThePageInARealBrowser(t *testing.T) {
	b := browser(t)
	for _, test := range []struct {
		name string
		run  func(*testing.T, context.Context)
	}{
		{"no scene makes the browser complain, or overflows a phone", scenesFit},
		{"all text has contrast, light and dark", textHasContrast},
		{"events appear as they happen", tailMoves},
		{"what ends a halt is printed, and the end is seen", haltEnds},
		{"renewing keeps what a person has focused, opened and scrolled to", renewingKeeps},
		{"a doorbell that is gone is said, and one that is back too", lossIsSaid},
		{"without a script it is whole", worksWithoutScript},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, b) })
	}
}
