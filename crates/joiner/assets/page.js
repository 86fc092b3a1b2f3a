// Live updates, a filter that is kept in the URL, and the theme. Everything shown is made on the server; this only asks
// for the same address again and takes over what differs.
'use strict';
(() => {
  const main = document.getElementById('main');
  const live = document.getElementById('live');
  const said = document.getElementById('said');
  let asking = false;
  let again = false;

  const key = (node) => (node.nodeType === 1 ? node.tagName + (node.id || node.dataset.key || '') : '#' + node.nodeType);

  // Makes the children of one element like those of another, keeping what is the same: focus, open folds, scrolling.
  function morph(from, to) {
    let at = from.firstChild;
    for (const wanted of [...to.childNodes]) {
      if (at && key(at) === key(wanted)) {
        update(at, wanted);
        at = at.nextSibling;
        continue;
      }
      let found = null;
      if (wanted.nodeType === 1 && (wanted.id || wanted.dataset.key)) {
        for (let other = at; other; other = other.nextSibling) {
          if (key(other) === key(wanted)) { found = other; break; }
        }
      }
      if (found) {
        from.insertBefore(found, at);
        update(found, wanted);
      } else {
        from.insertBefore(document.importNode(wanted, true), at);
      }
    }
    while (at) {
      const next = at.nextSibling;
      at.remove();
      at = next;
    }
  }

  function update(node, wanted) {
    if (node.nodeType !== 1) {
      if (node.nodeValue !== wanted.nodeValue) node.nodeValue = wanted.nodeValue;
      return;
    }
    for (const one of [...node.attributes]) {
      const kept = one.name === 'open' && node.tagName === 'DETAILS';
      if (!kept && !wanted.hasAttribute(one.name)) node.removeAttribute(one.name);
    }
    for (const one of wanted.attributes) {
      if (node.getAttribute(one.name) !== one.value) node.setAttribute(one.name, one.value);
    }
    if (node.tagName !== 'INPUT') morph(node, wanted);
  }

  async function refresh() {
    if (asking) { again = true; return; }
    if (document.querySelector('[data-still]')) return;
    asking = true;
    try {
      const answer = await fetch(location.href, { headers: { accept: 'text/html' } });
      if (answer.ok) {
        const next = new DOMParser().parseFromString(await answer.text(), 'text/html');
        const content = next.getElementById('main');
        if (content && next.getElementById('clock')) {
          morph(main, content);
          for (const id of ['clock', 'mode']) {
            document.getElementById(id).textContent = next.getElementById(id).textContent;
          }
          document.title = next.title;
        }
      } else if (answer.status === 401 || answer.status === 403) {
        location.reload();
      }
    } catch {
      live.className = 'dot lost';
    }
    asking = false;
    if (again) { again = false; setTimeout(refresh, 200); }
  }

  if (live) {
    const source = new EventSource('/api/v1/stream');
    source.addEventListener('change', () => { live.className = 'dot on'; refresh(); });
    source.addEventListener('error', () => { live.className = 'dot lost'; });
    addEventListener('pagehide', () => source.close());
  }

  // The filter.
  let typed = 0;
  document.addEventListener('input', (event) => {
    if (!event.target.matches('[data-filter]')) return;
    const url = new URL(location.href);
    if (event.target.value) url.searchParams.set('q', event.target.value);
    else url.searchParams.delete('q');
    history.replaceState(null, '', url);
    clearTimeout(typed);
    typed = setTimeout(async () => {
      await refresh();
      const count = document.getElementById('count');
      if (count) said.textContent = count.textContent;
    }, 120);
  });
  document.addEventListener('submit', (event) => {
    if (event.target.matches('.filter')) event.preventDefault();
  });
  document.addEventListener('keydown', (event) => {
    const field = document.querySelector('[data-filter]');
    if (event.key === '/' && field && !event.target.matches('input')) {
      event.preventDefault();
      field.focus();
    }
  });

  // The theme.
  const root = document.documentElement;
  const kept = localStorage.getItem('theme');
  if (kept) root.dataset.theme = kept;
  document.getElementById('theme')?.addEventListener('click', () => {
    const dark = root.dataset.theme
      ? root.dataset.theme === 'dark'
      : matchMedia('(prefers-color-scheme: dark)').matches;
    root.dataset.theme = dark ? 'light' : 'dark';
    localStorage.setItem('theme', root.dataset.theme);
  });
})();
