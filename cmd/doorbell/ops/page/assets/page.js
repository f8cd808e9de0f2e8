// The page is whole without this. With it, it renews its main part when something happens.
'use strict';
(() => {
  const every = 5000;
  const $ = id => document.getElementById(id);

  // Times are rendered in UTC and told in the zone of the reader.
  const clock = { hour: '2-digit', minute: '2-digit', hourCycle: 'h23' };
  const minute = new Intl.DateTimeFormat(undefined, clock);
  const second = new Intl.DateTimeFormat(undefined, { ...clock, second: '2-digit' });
  const day = new Intl.DateTimeFormat('en', { ...clock, month: 'short', day: 'numeric' });
  const told = (at, ago) => {
    const s = Math.max(0, Math.round((Date.now() - at) / 1000));
    if (ago && s < 2) return 'now';
    if (ago && s < 100) return s + ' s ago';
    if (ago && s < 6000) return Math.floor(s / 60) + ' min ago';
    if (ago) return s < 172800 ? Math.floor(s / 3600) + ' h ago' : Math.floor(s / 86400) + ' days ago';
    return (s < 72000 ? minute : day).format(at);
  };
  const local = root => {
    for (const t of root.querySelectorAll('time')) {
      const at = new Date(t.dateTime);
      if (!isNaN(at)) t.textContent = t.closest('#asof') ? second.format(at) : told(at, t.classList.contains('ago'));
    }
  };

  const tell = (text, kind) => {
    $('tail-state').textContent = text;
    $('tail-state').className = 'small ' + kind;
  };
  const lost = text => {
    $('lost').hidden = !text;
    $('lost').textContent = text;
    if (text) document.title = '○ not answering – ' + document.title.replace(/^○ not answering – /, '');
  };

  // What people have opened, scrolled or focused stays so.
  const show = next => {
    const main = $('main'), now = next.getElementById('main');
    if (!now) throw new Error('no page');
    const key = e => e.closest('article')?.querySelector('h3').textContent ?? e.id;
    const open = new Set([...main.querySelectorAll('details[open]')].map(key));
    const held = main.contains(document.activeElement) ? [document.activeElement.nodeName, key(document.activeElement)] : null;
    const scrolled = $('tail-list')?.scrollTop ?? 0, state = $('tail-state'), said = $('headline-text').textContent;
    local(now);
    for (const d of now.querySelectorAll('details')) d.open = open.has(key(d));
    main.replaceWith(document.adoptNode(now));
    $('tail-state').replaceWith(state);
    if ($('tail-list')) $('tail-list').scrollTop = scrolled;
    if (held) [...now.querySelectorAll(held[0])].find(e => key(e) === held[1])?.focus({ preventScroll: true });
    $('asof').replaceChildren(...next.getElementById('asof').childNodes);
    local($('asof'));
    if ($('icon').href !== next.getElementById('icon').href) $('icon').href = next.getElementById('icon').getAttribute('href');
    document.title = next.title;
    if ($('headline-text').textContent !== said) $('said').textContent = $('headline-text').textContent;
  };

  let timer = 0, asked = 0;
  const renew = async () => {
    clearTimeout(timer);
    const mine = ++asked;
    try {
      const answer = await fetch('./', { cache: 'no-store', signal: AbortSignal.timeout(10000) });
      if (answer.status === 401 || answer.status === 403) return location.reload();
      if (!answer.ok) throw new Error(answer.status);
      const next = new DOMParser().parseFromString(await answer.text(), 'text/html');
      if (mine !== asked) return;
      if (getSelection().isCollapsed) show(next); // or somebody is about to copy a command
      lost('');
    } catch {
      if (mine === asked) lost('doorbell does not answer. What you see is as it was at ' + $('asof').textContent + '.');
    }
    if (mine === asked && !document.hidden) soon(every);
  };
  const soon = wait => {
    clearTimeout(timer);
    timer = setTimeout(renew, wait);
  };

  let source = null, again = 0;
  const close = () => {
    clearTimeout(again);
    source?.close();
    source = null;
  };
  const open = () => {
    close();
    if ($('tail-state').textContent === 'not live') return;
    source = new EventSource('events');
    source.onopen = () => tell('connected', 'on');
    source.onmessage = () => soon(1100); // a status is shared for a second
    source.onerror = () => {
      tell('not connected; retrying', 'off');
      if (source?.readyState === EventSource.CLOSED) again = setTimeout(open, every);
    };
  };

  // While nobody looks, nothing is asked.
  const look = () => {
    clearTimeout(timer);
    if (document.hidden) return close();
    renew();
    open();
  };
  document.addEventListener('visibilitychange', look);
  addEventListener('pagehide', close);
  addEventListener('pageshow', e => { if (e.persisted) look(); });

  $('zone').textContent = 'Times are those of your zone (' + Intl.DateTimeFormat().resolvedOptions().timeZone + ').';
  local(document);
  soon(every);
  open();
})();
