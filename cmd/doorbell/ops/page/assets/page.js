// The page is whole without this. With it, it renews itself and shows events as they come.
'use strict';
(() => {
  const every = 5000, kept = 100, retry = 5000;
  const $ = id => document.getElementById(id);
  const title = () => document.title.replace(/^○ not answering – /, '');

  // Times are rendered in UTC and told in the zone of the reader.
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  const forms = {
    clock: new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', second: '2-digit', hourCycle: 'h23' }),
    minute: new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' }),
    day: new Intl.DateTimeFormat('en', { month: 'short', day: 'numeric', hour: '2-digit', minute: '2-digit', hourCycle: 'h23' }),
  };
  const ago = at => {
    const s = Math.max(0, Math.round((Date.now() - at) / 1000));
    if (s < 2) return 'now';
    if (s < 100) return s + ' s ago';
    if (s < 6000) return Math.floor(s / 60) + ' min ago';
    return s < 72000 ? forms.minute.format(at) : forms.day.format(at);
  };
  const local = root => {
    for (const t of root.querySelectorAll('time[data-form]')) {
      const at = new Date(t.dateTime), form = forms[t.dataset.form];
      if (isNaN(at) || !form && t.dataset.form !== 'ago') continue;
      const text = form ? form.format(at) : ago(at);
      if (t.textContent !== text) t.textContent = text;
    }
  };

  // morph makes one tree like another and keeps what is the same, so that focus, scrolling and what is open stay.
  const morph = (have, want) => {
    if (have.nodeType !== Node.ELEMENT_NODE) {
      if (have.nodeValue !== want.nodeValue) have.nodeValue = want.nodeValue;
      return;
    }
    if (have.hasAttribute('data-keep') || have.isEqualNode(want)) return;
    for (const a of [...have.attributes]) if (!want.hasAttribute(a.name) && a.name !== 'open') have.removeAttribute(a.name);
    for (const a of want.attributes) if (have.getAttribute(a.name) !== a.value) have.setAttribute(a.name, a.value);
    children(have, want);
  };
  const alike = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && !a.id && !b.id;
  const children = (have, want) => {
    const known = new Map();
    for (const c of have.children) if (c.id) known.set(c.id, c);
    let at = have.firstChild;
    for (const w of [...want.childNodes]) {
      const h = w.id ? known.get(w.id) : at && alike(at, w) ? at : null;
      if (!h) {
        have.insertBefore(document.importNode(w, true), at);
      } else {
        if (h === at) at = at.nextSibling;
        else if (have.moveBefore) have.moveBefore(h, at);
        else have.insertBefore(h, at);
        morph(h, w);
      }
    }
    while (at) {
      const next = at.nextSibling;
      at.remove();
      at = next;
    }
  };

  // What people type and choose stays theirs.
  const show = text => {
    const next = new DOMParser().parseFromString(text, 'text/html');
    const live = next.getElementById('live');
    if (!live) throw new Error('no page');
    local(live);
    const focused = document.activeElement, before = $('headline-text').textContent;
    dress(live);
    morph($('live'), live);
    if (focused && focused !== document.body && focused !== document.activeElement) {
      if (focused.isConnected) focused.focus({ preventScroll: true });
      else $('headline').focus({ preventScroll: true });
    }
    const icon = next.getElementById('icon');
    if ($('icon').getAttribute('href') !== icon.getAttribute('href')) $('icon').setAttribute('href', icon.getAttribute('href'));
    document.title = next.title;
    if ($('headline-text').textContent !== before) $('said').textContent = $('headline-text').textContent;
  };
  const dress = root => {
    const go = root.querySelector('#go');
    if (go) go.hidden = true;
  };

  let timer = 0, asked = 0;
  const lost = text => {
    $('lost').hidden = !text;
    if ($('lost').textContent !== text) $('lost').textContent = text;
    $('renewing').className = text ? '' : 'on';
    if (text) document.title = '○ not answering – ' + title();
  };
  const query = () => {
    const q = new URLSearchParams();
    if ($('q') && $('q').value) q.set('q', $('q').value);
    if ($('sort') && $('sort').value !== 'state') q.set('sort', $('sort').value);
    return q;
  };
  const renew = async () => {
    clearTimeout(timer);
    const mine = ++asked, q = query();
    try {
      const answer = await fetch('fragment?' + q, { cache: 'no-store', signal: AbortSignal.timeout(10000) });
      if (answer.status === 401 || answer.status === 403) return location.reload();
      if (!answer.ok) throw new Error(answer.status);
      const text = await answer.text();
      if (mine !== asked) return;
      show(text);
      local(list);
      lost('');
    } catch {
      if (mine !== asked) return;
      lost('doorbell does not answer. What you see is as it was at ' + $('live').querySelector('.asof time').textContent + '.');
    }
    clearTimeout(timer);
    if (!document.hidden) timer = setTimeout(renew, every);
  };

  // Finding and sorting ask the server, as the form would.
  let typing = 0;
  const find = () => {
    const q = query().toString();
    history.replaceState(null, '', q ? '?' + q : './');
    renew();
  };
  document.addEventListener('input', e => {
    if (e.target.id !== 'q') return;
    clearTimeout(typing);
    typing = setTimeout(find, 150);
  });
  document.addEventListener('change', e => { if (e.target.id === 'sort') find(); });
  document.addEventListener('submit', e => {
    if (e.target.id !== 'find') return;
    e.preventDefault();
    find();
  });

  // The tail.
  const list = $('tail-list'), state = $('tail-state'), pause = $('pause');
  let source = null, again = 0, paused = false, waiting = [], drawing = false;
  const seen = new Set([...list.children].map(li => li.dataset.id));
  const tell = (text, kind) => {
    if (state.textContent !== text) state.textContent = text;
    state.className = 'soft ' + kind;
  };
  const element = (name, kind, text) => {
    const e = document.createElement(name);
    if (kind) e.className = kind;
    if (text !== undefined) e.textContent = text;
    return e;
  };
  const line = e => {
    const type = String(e.type), over = /\.(resumed|recovered|baselined)$/.test(type) ? ' over' : '';
    const li = element('li', type.split('.')[0].replace(/[^a-z_]/g, '') + over + ' fresh');
    const at = element('time'), main = element('span', 'tail-main'), what = element('b', 'what', e.what), text = element('span', 'tail-text');
    li.dataset.id = e.id;
    what.title = type.slice(0, 64);
    at.dateTime = e.recordedtime;
    at.dataset.form = 'ago';
    at.title = String(e.recordedtime).replace('T', ' ').replace(/(\.\d+)?Z$/, ' UTC');
    main.append(what);
    if (e.title) main.append(' · ', element('span', 'title', e.title));
    main.append(' · ', e.agency, ' · ', at);
    if (e.origin === 'baseline') main.append(' · ', element('span', 'old', 'was there before'));
    if (e.reference) text.append(element('span', 'ref', e.reference), ' ');
    if (e.detail) text.append(e.detail);
    li.append(main, text);
    local(main);
    return li;
  };
  const draw = () => {
    drawing = false;
    if (paused) {
      pause.textContent = waiting.length ? 'Go on (' + waiting.length + (waiting.length === kept ? '+' : '') + ')' : 'Go on';
      return;
    }
    const reading = list.scrollTop > 0, height = list.scrollHeight;
    for (const e of waiting) list.prepend(line(e));
    waiting = [];
    for (const of of ['.contact_request', ':not(.contact_request)']) {
      for (const li of [...list.querySelectorAll('li' + of)].slice(kept)) li.remove();
    }
    for (const n of [...list.childNodes]) if (n.nodeType !== Node.ELEMENT_NODE) n.remove();
    if (reading) list.scrollTop += list.scrollHeight - height;
    $('tail-empty').hidden = list.children.length > 0;
  };
  const take = message => {
    let e;
    try { e = JSON.parse(message.data); } catch { return; }
    if (!e.id || seen.has(e.id)) return;
    seen.add(e.id);
    if (seen.size > 2000) for (const id of [...seen].slice(0, 1000)) seen.delete(id);
    waiting.push(e);
    if (waiting.length > kept) waiting.shift();
    if (!drawing) {
      drawing = true;
      requestAnimationFrame(draw);
    }
  };
  const open = () => {
    close();
    if (state.textContent === 'not live') return;
    source = new EventSource('events');
    source.onopen = () => tell('connected', 'on');
    source.onmessage = take;
    source.onerror = () => {
      tell('not connected; retrying', 'off');
      if (source && source.readyState === EventSource.CLOSED) again = setTimeout(open, retry);
    };
  };
  const close = () => {
    clearTimeout(again);
    if (source) source.close();
    source = null;
  };
  const only = $('leads-only');
  only.addEventListener('click', () => {
    only.setAttribute('aria-pressed', String(list.classList.toggle('leads-only')));
    list.scrollTop = 0;
  });
  pause.addEventListener('click', () => {
    paused = !paused;
    pause.setAttribute('aria-pressed', String(paused));
    pause.textContent = paused ? 'Go on' : 'Pause';
    draw();
  });

  // While nobody looks, nothing is asked.
  document.addEventListener('visibilitychange', () => {
    clearTimeout(timer);
    if (document.hidden) {
      close();
      tell('paused while this tab is hidden', '');
      return;
    }
    renew();
    open();
  });
  window.addEventListener('pagehide', close);
  window.addEventListener('pageshow', e => { if (e.persisted) { renew(); open(); } });

  $('zone').textContent = 'Times are those of your zone (' + zone + ').';
  pause.hidden = state.textContent === 'not live';
  only.hidden = false;
  dress(document);
  local(document);
  $('renewing').className = 'on';
  if (!document.hidden) {
    timer = setTimeout(renew, every);
    open();
  }
})();
