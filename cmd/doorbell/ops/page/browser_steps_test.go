package page

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"doorbell/cmd/doorbell/ops"
	"doorbell/events"
)

func scenesFit(t *testing.T, b context.Context) {
	now := time.Now()
	for name, scene := range map[string]func() (ops.Status, []events.Event){
		"empty": func() (ops.Status, []events.Event) { return emptyScene(now) }, "busy": func() (ops.Status, []events.Event) { return busyScene(now) },
		"troubled": func() (ops.Status, []events.Event) { return troubledScene(now) }, "many": func() (ops.Status, []events.Event) { return manyScene(now, 200) },
		"hostile": func() (ops.Status, []events.Event) { return hostile(now, strings.Repeat("W", 5000)) },
		"script": func() (ops.Status, []events.Event) {
			return hostile(now, `"><script>document.title='taken'</script><img src=x onerror="document.title='taken'">`)
		},
	} {
		s := newSite(t, first(scene()), second(scene()))
		p := open(t, b, s.URL, size(360))
		p.until("document.getElementById('tail-state').classList.contains('on')")
		p.text("document.querySelectorAll('details').forEach(d => d.open = true)")
		for _, width := range []int64{360, 390, 768, 1280} {
			p.do(size(width))
			if over := p.text("document.documentElement.scrollWidth - innerWidth"); over != "0" {
				t.Errorf("%s at %d: %s too wide, because of %s", name, width, over, p.text(wide))
			}
		}
		if title := p.text("document.title"); title == "taken" {
			t.Errorf("%s: a script of the API ran", name)
		}
	}
}

// wide are the innermost things that reach out of the window.
const wide = `[...document.querySelectorAll('main *, header *, footer *')].filter(e => e.getBoundingClientRect().right > innerWidth && ![...e.children].some(c => c.getBoundingClientRect().right > innerWidth)).slice(0, 5).map(e => e.tagName + '.' + (e.className.baseVal ?? e.className) + ' ' + e.textContent.slice(0, 20))`

func first(s ops.Status, _ []events.Event) ops.Status      { return s }
func second(_ ops.Status, l []events.Event) []events.Event { return l }

// contrasts lists visible texts whose contrast with what is behind them is less than WCAG AA asks for.
const contrasts = `(() => {
  const parts = c => c.startsWith('color(') ? c.match(/[\d.]+/g).map((v, i) => i < 3 ? v * 255 : +v) : c.match(/[\d.]+/g).map(Number);
  const light = c => { const [r, g, b] = c.map(v => { v /= 255; return v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; }); return .2126 * r + .7152 * g + .0722 * b; };
  const behind = e => { for (; e; e = e.parentElement) { const c = parts(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] === 1) return c; } return [255, 255, 255]; };
  const poor = new Set();
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let n; n = walk.nextNode();) {
    const e = n.parentElement;
    if (!n.nodeValue.trim() || !e.checkVisibility() || e.closest('.vh, .skip, svg, noscript, option')) continue;
    const style = getComputedStyle(e), a = light(parts(style.color)), b = light(behind(e));
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    const large = parseFloat(style.fontSize) >= 24 || parseFloat(style.fontSize) >= 18.66 && style.fontWeight >= 700;
    if (ratio < (large ? 3 : 4.5)) poor.add(e.className + ' ' + n.nodeValue.trim().slice(0, 30) + ' ' + ratio.toFixed(2));
  }
  return [...poor].join('; ');
})()`

func textHasContrast(t *testing.T, b context.Context) {
	for _, name := range []string{"light", "dark"} {
		for _, scene := range []func(time.Time) (ops.Status, []events.Event){emptyScene, troubledScene} {
			s := newSite(t, first(scene(time.Now())), second(scene(time.Now())))
			p := open(t, b, s.URL, size(1280), scheme(name))
			if poor := p.text(contrasts); poor != "" {
				t.Errorf("%s: %s", name, poor)
			}
		}
	}
}

func tailMoves(t *testing.T, b context.Context) {
	s := newSite(t, first(busyScene(time.Now())), someEvents(time.Now(), 3))
	p := open(t, b, s.URL, size(1280))
	p.until("document.getElementById('tail-state').textContent === 'connected'")
	count, newest := "document.querySelectorAll('#tail-list li').length", "document.querySelector('#tail-list li').textContent"
	e := anEvent(7, time.Now())
	s.happen(e)
	p.until(count + " === 4 && " + newest + ".includes('" + e.Reference + "')")
	if text := p.text(newest); !strings.Contains(text, "New lead") || strings.Contains(text, nobody) || strings.Contains(text, "Nora") {
		t.Errorf("it says %q", text)
	}
}

// halted is a site with one halted agency.
func halted(t *testing.T) *site {
	now := time.Now()
	status, list := busyScene(now)
	troubled, _ := troubledScene(now)
	status.Watch.Agencies[0] = troubled.Watch.Agencies[0]
	return newSite(t, status, list)
}

func haltEnds(t *testing.T, b context.Context) {
	s := halted(t)
	p := open(t, b, s.URL, size(1280))
	if title := p.text("document.title"); title != "■ A100 is halted: the key may not read this agency – doorbell" {
		t.Errorf("the title is %q", title)
	}
	if command := p.text("document.querySelector('.problem .command code').textContent"); command != "doorbell resume A100" {
		t.Errorf("it says %q", command)
	}
	s.mu.Lock()
	s.status.Watch.Agencies[0] = agency("A100", 412, time.Now())
	s.mu.Unlock()
	p.text("setTimeout(() => document.dispatchEvent(new Event('visibilitychange')), 1100)") // pages share a status for a second
	p.until("document.getElementById('headline-text').textContent === 'All is well' && document.title === '2 agencies – doorbell'")
}

func renewingKeeps(t *testing.T, b context.Context) {
	now := time.Now()
	status, list := manyScene(now, 200)
	s := newSite(t, status, list)
	p := open(t, b, s.URL, size(1280))
	p.text("document.querySelector('.problem details').open = true, scrollTo(0, 900)")
	p.text("document.querySelector('.problem summary').focus({preventScroll: true}), 0")
	before := p.text("scrollY + ' ' + document.activeElement.textContent")
	s.mu.Lock()
	s.status.Watch.Agencies[0].Insertions = 9876
	s.mu.Unlock()
	p.text("setTimeout(() => document.dispatchEvent(new Event('visibilitychange')), 1100)") // pages share a status for a second
	p.until("document.getElementById('agencies').textContent.includes('9,876')")
	if after := p.text("scrollY + ' ' + document.activeElement.textContent"); after != before {
		t.Errorf("%q became %q", before, after)
	}
	if kept := p.text("document.querySelector('.problem details').open"); kept != "true" {
		t.Error("what was open is closed")
	}
}

func lossIsSaid(t *testing.T, b context.Context) {
	status, list := busyScene(time.Now())
	var gone atomic.Bool
	h := Handler(of(status, list))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if gone.Load() {
			w.WriteHeader(http.StatusNoContent) // a refusal would make the browser complain, which is asked for elsewhere
			return
		}
		h.ServeHTTP(w, r)
	}))
	t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	p := open(t, b, server.URL, size(1280))
	p.until("document.getElementById('tail-state').textContent === 'connected'")
	gone.Store(true)
	p.renew()
	p.until("!document.getElementById('lost').hidden && document.title.startsWith('○ not answering')")
	p.until("document.getElementById('tail-state').textContent.startsWith('not connected')")
	gone.Store(false)
	p.renew()
	p.until("document.getElementById('lost').hidden && document.title === '2 agencies – doorbell' && document.getElementById('tail-state').textContent === 'connected'")
}

func worksWithoutScript(t *testing.T, b context.Context) {
	s := halted(t)
	p := open(t, b, s.URL, withoutScript, size(390))
	if text := p.text("document.body.innerText"); !strings.Contains(text, "A100 is halted") || !strings.Contains(text, "Reload to see what is new") {
		t.Errorf("it says %q", text)
	}
}
