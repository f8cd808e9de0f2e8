// The page is whole without this script. With it, it renews itself, at once when an event comes.
'use strict';
(() => {
  const every = 5000;
  const $ = id => document.getElementById(id);

  // Times are rendered in UTC and shown in the zone of the reader.
  const local = root => {
    for (const t of root.querySelectorAll('time')) {
      const at = new Date(t.dateTime);
      const today = at.toDateString() === new Date().toDateString();
      if (!isNaN(at)) t.textContent = today ? at.toLocaleTimeString() : at.toLocaleString();
    }
  };

  // What a person has opened, scrolled or focused stays so.
  const show = next => {
    const key = details => details.closest('article').querySelector('h3').textContent;
    const open = new Set([...document.querySelectorAll('details[open]')].map(key));
    const scrolled = $('tail-list')?.scrollTop ?? 0;
    const focused = document.activeElement.closest('details');
    const main = next.getElementById('main');
    for (const details of main.querySelectorAll('details')) {
      details.open = open.has(key(details));
    }
    local(next);
    $('main').replaceWith(main);
    $('asof').replaceWith(next.getElementById('asof'));
    document.title = next.title;
    if ($('tail-list')) $('tail-list').scrollTop = scrolled;
    if (focused) {
      const again = [...main.querySelectorAll('details')].find(d => key(d) === key(focused));
      again?.querySelector('summary').focus({ preventScroll: true });
    }
  };

  const renew = async () => {
    if (document.hidden || !getSelection().isCollapsed) return; // or a person is about to copy a command
    try {
      const response = await fetch('./', { cache: 'no-store', signal: AbortSignal.timeout(10000) });
      if (response.status === 401 || response.status === 403) return location.reload();
      if (!response.ok) throw new Error(response.status);
      show(new DOMParser().parseFromString(await response.text(), 'text/html'));
      $('lost').hidden = true;
    } catch {
      $('lost').hidden = false;
      document.title = '○ not answering';
    }
  };

  // A browser allows few connections to a server, so a hidden page has none.
  let source = null, timer = 0;
  const follow = () => {
    source?.close();
    if (document.hidden) return;
    renew();
    source = new EventSource('events');
    source.onmessage = () => {
      clearTimeout(timer);
      timer = setTimeout(renew, 1100); // a status is shared for a second
    };
  };

  document.addEventListener('visibilitychange', follow);
  $('zone').textContent = 'Times are those of your zone (' + Intl.DateTimeFormat().resolvedOptions().timeZone + ').';
  local(document);
  follow();
  setInterval(renew, every);
})();
