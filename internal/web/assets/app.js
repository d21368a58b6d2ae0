'use strict';
// Optional additions: the pages work without them. Each part finds its elements by data attributes, so that swapped-in content
// behaves like the first paint.

const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const byId = (id) => document.getElementById(id);

// ---- The stream status, and the banner while the connection is lost ----

const live = {
  paused: false,
  set(state, word) {
    const chip = byId('stream');
    if (!chip || chip.dataset.state === state) return;
    chip.dataset.state = state;
    chip.querySelector('.stream-word').textContent = word;
  },
  up() {
    if (this.paused) this.set('paused', 'Paused'); else this.set('live', 'Live');
    this.down(false);
    const made = byId('made');
    const now = new Date();
    if (made) { made.dateTime = now.toISOString(); made.title = times.exact(now); made.textContent = times.clock(now, true); }
  },
  down(lost) {
    const banner = byId('lost');
    if (!banner || banner.hidden === !lost) return;
    banner.hidden = !lost;
    for (const button of all('[data-act], main form button, dialog form button:not([type="button"])')) button.disabled = lost;
  },
};
document.addEventListener('htmx:sse:after:connection', () => live.up());
document.addEventListener('htmx:sse:after:message', () => live.up());
document.addEventListener('htmx:sse:error', () => { live.set('wait', 'Reconnecting…'); live.down(true); });
document.addEventListener('htmx:sse:close', (e) => { if (e.detail.reason === 'message') live.set('ended', 'Ended'); });
document.addEventListener('htmx:sse:before:connection', (e) => { if (e.detail.connection.attempt > 1) live.set('wait', 'Reconnecting…'); });

// The extension does not retry the first connection.
document.addEventListener('htmx:error', (e) => { if (e.target.id === 'live') again(e.target); });
document.addEventListener('htmx:response:error', (e) => { if (e.target.id === 'live') again(e.target); });
function again(element) {
  live.set('wait', 'Reconnecting…');
  setTimeout(() => { if (element.isConnected) htmx.process(element, true); }, 3000 + 2000 * Math.random());
}

// ---- Requests: a progress bar after 300 ms, and aria-busy during the request ----

let pending = 0;
let barTimer = 0;
document.addEventListener('htmx:before:request', (e) => {
  if (e.target.id === 'live') return;
  if (live.paused && e.target.id === 'main') { e.preventDefault(); return; }
  const target = e.detail.ctx.target;
  if (target && target.setAttribute) target.setAttribute('aria-busy', 'true');
  if (pending++ === 0) barTimer = setTimeout(() => { byId('progress').hidden = false; }, 300);
});
document.addEventListener('htmx:finally:request', (e) => {
  if (e.target.id === 'live') return;
  const target = e.detail.ctx.target;
  if (target && target.removeAttribute) target.removeAttribute('aria-busy');
  pending = Math.max(0, pending - 1);
  if (pending === 0) { clearTimeout(barTimer); byId('progress').hidden = true; }
});

// ---- Dialogs, for browsers without support for command and commandfor ----

if (!('commandForElement' in HTMLButtonElement.prototype)) {
  document.addEventListener('click', (e) => {
    const button = e.target.closest('button[commandfor]');
    const dialog = button && byId(button.getAttribute('commandfor'));
    if (!dialog) return;
    if (button.getAttribute('command') === 'close') dialog.close(); else dialog.showModal();
  });
}
document.addEventListener('click', (e) => {
  if (e.target.matches('dialog.ask')) e.target.close(); // the backdrop
  for (const menu of all('details.more[open]')) if (!menu.contains(e.target)) menu.open = false;
});

// ---- Times in the reader's zone. The server writes UTC; both choose the layout by the same rules ----

const times = {
  zone: Intl.DateTimeFormat().resolvedOptions().timeZone || 'UTC',
  months: ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'],
  two: (n) => String(n).padStart(2, '0'),
  parts(date, utc) {
    return utc ? [date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate(), date.getUTCHours(), date.getUTCMinutes(), date.getUTCSeconds()]
      : [date.getFullYear(), date.getMonth(), date.getDate(), date.getHours(), date.getMinutes(), date.getSeconds()];
  },
  clock(date, seconds, utc) {
    const [, , , h, m, s] = this.parts(date, utc);
    return this.two(h) + ':' + this.two(m) + (seconds ? ':' + this.two(s) : '');
  },
  day(date, utc) { const [, month, d] = this.parts(date, utc); return d + ' ' + this.months[month]; },
  date(date, utc) { const [y, month, d] = this.parts(date, utc); return y + '-' + this.two(month + 1) + '-' + this.two(d); },
  exact(date) { return this.date(date) + ' ' + this.clock(date, true) + ' ' + this.zone; },
  short(date) {
    const now = new Date();
    if (date.getFullYear() !== now.getFullYear()) return this.day(date) + ' ' + date.getFullYear();
    return this.date(date) === this.date(now) ? this.clock(date, true) : this.day(date) + ' ' + this.clock(date);
  },
  // Only a text that is the time itself is replaced: others are relative, or in words.
  text(element, date) {
    const text = element.textContent;
    const clock = this.clock(date, false, true);
    if (text === this.clock(date, true, true)) {
      const day = element.closest('[data-day]')?.dataset.day;
      if (!day) return this.short(date);
      return (day !== this.date(date) ? this.day(date) + ' ' : '') + this.clock(date, true);
    }
    if ([clock, this.day(date, true) + ' ' + clock, this.day(date, true) + ' ' + date.getUTCFullYear()].includes(text)) return this.short(date);
    return text;
  },
  one(element) {
    const date = new Date(element.dateTime);
    if (Number.isNaN(date.getTime())) return;
    const text = this.text(element, date);
    if (text !== element.textContent) element.textContent = text;
    if (element.title.endsWith(' UTC')) element.title = this.exact(date);
  },
  show(root) {
    if (root.nodeType !== Node.ELEMENT_NODE && root !== document) return;
    if (root.matches?.('time[datetime]')) this.one(root);
    for (const element of all('time[datetime]', root)) this.one(element);
    for (const label of all('text[data-time]', root)) {
      const date = new Date(label.dataset.time);
      const text = label.dataset.form === 'day' ? this.day(date) : this.clock(date);
      if (label.textContent !== text) label.textContent = text;
    }
    for (const bar of all('rect[data-begin]', root)) {
      const title = bar.querySelector('title');
      if (!title || bar.dataset.shown === title.textContent) continue;
      const rest = title.textContent.slice(title.textContent.indexOf(': '));
      title.textContent = this.short(new Date(bar.dataset.begin)) + ' to ' + this.short(new Date(bar.dataset.end)) + rest;
      bar.dataset.shown = title.textContent;
    }
    for (const field of all('input[type="hidden"][name="zone"]', root)) {
      if (field.value === this.zone) continue;
      field.value = this.zone;
      for (const hint of all('.hint', field.form)) hint.textContent = hint.textContent.replace('(UTC)', '(' + this.zone + ')');
    }
    const zone = byId('zone');
    if (zone && zone.textContent !== this.zone) zone.textContent = this.zone;
  },
};
times.show(document);
document.addEventListener('htmx:after:swap', () => times.show(document));
new MutationObserver((changes) => {
  for (const change of changes) {
    const time = change.target.parentElement?.closest('time[datetime]');
    if (time) times.one(time);
    for (const node of change.addedNodes) times.show(node);
  }
}).observe(document.body, { childList: true, characterData: true, subtree: true });

// ---- Bars: pointing at one, or the arrow keys on their row, tell its time, state and error ----

const bars = {
  list: (row) => all('rect[data-begin]', row),
  show(row, bar, announced) {
    for (const other of this.list(row)) other.classList.toggle('current', other === bar);
    const tip = row.querySelector('.bar-tip');
    tip.textContent = bar ? bar.querySelector('title').textContent : '';
    if (!bar) return;
    tip.setAttribute('aria-live', announced ? 'polite' : 'off');
    const within = row.getBoundingClientRect();
    const at = bar.getBoundingClientRect();
    const left = Math.max(0, Math.min(at.left - within.left, within.width - tip.offsetWidth));
    // No inline style: the policy of the page forbids the attribute, not the property.
    tip.style.setProperty('left', left + 'px');
  },
};
document.addEventListener('pointerover', (e) => {
  const bar = e.target.closest?.('rect[data-begin]');
  const row = bar?.closest('.bars');
  if (row) bars.show(row, bar, false);
});
document.addEventListener('pointerout', (e) => {
  const row = e.target.closest?.('.bars');
  if (row && !row.contains(e.relatedTarget) && document.activeElement !== row) bars.show(row, null);
});
document.addEventListener('focusin', (e) => {
  if (e.target.matches('.bars:focus-visible')) bars.show(e.target, e.target.querySelector('rect.current') || bars.list(e.target).at(-1), true);
});
document.addEventListener('focusout', (e) => { if (e.target.matches('.bars')) bars.show(e.target, null); });
document.addEventListener('keydown', (e) => {
  if (!e.target.matches('.bars') || e.ctrlKey || e.metaKey || e.altKey) return;
  const list = bars.list(e.target);
  const at = Math.max(0, list.findIndex((bar) => bar.classList.contains('current')));
  const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: list.length - 1 }[e.key];
  if (e.key === 'Escape') { bars.show(e.target, null); return; }
  if (to === undefined) return;
  e.preventDefault();
  bars.show(e.target, list[Math.max(0, Math.min(to, list.length - 1))], true);
});

// ---- Relative times ----

function coarse(seconds) {
  if (seconds < 3600) return Math.floor(seconds / 60) + 'm';
  if (seconds < 48 * 3600) return Math.floor(seconds / 3600) + 'h';
  return Math.floor(seconds / 86400) + 'd';
}
setInterval(() => {
  for (const time of all('time[data-ago]')) {
    const seconds = (Date.now() - Date.parse(time.dateTime)) / 1000;
    const text = seconds < 60 ? 'just now' : coarse(seconds) + ' ago';
    if (time.textContent !== text) time.textContent = text;
  }
}, 15000);

// ---- Copy buttons ----

function showCopies(root) { if (navigator.clipboard) for (const button of all('[data-copy]', root)) button.hidden = false; }
showCopies(document);
document.addEventListener('htmx:after:swap', () => showCopies(document));
document.addEventListener('click', async (e) => {
  const button = e.target.closest('[data-copy]');
  if (!button) return;
  const from = button.dataset.copyFrom && byId(button.dataset.copyFrom);
  await navigator.clipboard.writeText(from ? from.textContent : button.dataset.copy);
  announce('Copied');
  button.classList.add('done');
  setTimeout(() => button.classList.remove('done'), 1200);
});

function announce(text) {
  const region = byId('announce');
  if (region) region.textContent = text;
}

// ---- Keys ----

const places = { o: '/', s: '/cycles', p: '/approvals', a: '/actions', i: '/incidents', v: '/services', c: '/costs', e: '/events', m: '/memory' };
let going = 0;
document.addEventListener('keydown', (e) => {
  if ((e.ctrlKey || e.metaKey) && e.key === 'k') { const box = byId('find-all'); if (box) { e.preventDefault(); box.focus(); box.select(); } return; }
  if (e.ctrlKey || e.metaKey || e.altKey || e.target.closest('input:not([type="checkbox"]), textarea, select, dialog')) return;
  if (Date.now() - going < 1500 && places[e.key]) { going = 0; location.href = places[e.key]; return; }
  going = 0;
  switch (e.key) {
    case 'g': going = Date.now(); return;
    case '/': { const box = document.querySelector('[data-find]') || byId('find-all'); if (!box) return; box.focus(); break; }
    case 'f': { const button = document.querySelector('[data-pause]'); if (!button) return; button.click(); break; }
    case 'r': byId('run-now')?.showModal(); break;
    case '?': byId('keys')?.showModal(); break;
    default: return;
  }
  e.preventDefault();
});

// ---- Filters apply when they change; the button is for browsers without scripts ----

document.addEventListener('change', (e) => {
  const form = e.target.closest('form[data-auto]');
  if (form && e.target.matches('select, input[type="checkbox"][name]')) form.requestSubmit();
});

// ---- Durations of running sessions ----

function spanOf(seconds) {
  if (seconds < 60) return Math.max(0, Math.floor(seconds)) + 's';
  const two = (n) => String(Math.floor(n)).padStart(2, '0');
  if (seconds < 3600) return Math.floor(seconds / 60) + 'm ' + two(seconds % 60) + 's';
  if (seconds < 86400) return Math.floor(seconds / 3600) + 'h ' + two(seconds % 3600 / 60) + 'm';
  return Math.floor(seconds / 86400) + 'd ' + Math.floor(seconds % 86400 / 3600) + 'h';
}
setInterval(() => {
  if (document.hidden || !byId('lost')?.hidden) return;
  for (const element of all('[data-since]')) {
    const since = Date.parse(element.dataset.since);
    if (!Number.isNaN(since)) element.textContent = spanOf((Date.now() - since) / 1000);
  }
}, 1000);

// ---- Tabs: all tabs are in the page, and the root element names the visible one ----

document.addEventListener('click', (e) => {
  const link = e.target.closest('a[data-tab]');
  if (!link || e.ctrlKey || e.metaKey || e.shiftKey || e.altKey || e.button !== 0) return;
  e.preventDefault();
  document.documentElement.dataset.tab = link.dataset.tab;
  for (const other of all('a', link.parentElement)) if (other === link) other.setAttribute('aria-current', 'page'); else other.removeAttribute('aria-current');
  history.replaceState(null, '', link.href);
  document.dispatchEvent(new Event('tab'));
});

// ---- Pause the updates of a list ----

for (const button of all('[data-list]')) button.hidden = false;
document.addEventListener('click', (e) => {
  const button = e.target.closest('[data-list]');
  if (!button) return;
  live.paused = !live.paused;
  button.setAttribute('aria-pressed', String(live.paused));
  button.lastElementChild.textContent = live.paused ? 'Resume updates' : 'Pause updates';
  live.up();
  if (!live.paused) htmx.trigger(byId('live'), 'changed');
});
document.addEventListener('htmx:after:swap', () => { for (const button of all('[data-list]')) button.hidden = false; });

// ---- Transcript: follow and pause, find, more lines above ----

const log = byId('log');
if (log) {
  const lines = byId('lines');
  const follow = document.querySelector('[data-follow]');
  const jump = byId('jump');
  let following = Boolean(follow);
  let unseen = 0;
  const atEnd = () => log.scrollHeight - log.scrollTop - log.clientHeight < 40;
  const toEnd = () => { log.scrollTop = log.scrollHeight; };
  const show = () => {
    if (follow) {
      follow.hidden = false;
      follow.setAttribute('aria-pressed', String(following));
      follow.lastElementChild.textContent = following ? 'Following' : 'Paused';
    }
    jump.hidden = following || unseen === 0;
    byId('jump-count').textContent = unseen === 1 ? '1 new line,' : unseen + ' new lines,';
  };
  const set = (on) => { following = on; if (on) { unseen = 0; toEnd(); } show(); };
  if (follow) {
    set(true);
    follow.addEventListener('click', () => set(!following));
    jump.addEventListener('click', () => { set(true); log.focus(); });
    log.addEventListener('scroll', () => {
      if (following && !atEnd()) set(false);
      else if (!following && unseen > 0 && atEnd()) set(true);
    }, { passive: true });
    document.addEventListener('tab', () => { if (following) toEnd(); });
    new MutationObserver((changes) => {
      let added = 0;
      for (const change of changes) for (const node of change.addedNodes) if (node.id && node.nextElementSibling === null || node.classList?.contains('entry')) added++;
      if (following) toEnd(); else { unseen += added; show(); }
    }).observe(lines, { childList: true });
  }
  // Lines inserted above must not move the visible ones.
  document.addEventListener('htmx:before:swap', (e) => {
    if (!e.target.matches?.('[data-before]')) return;
    const below = log.scrollHeight - log.scrollTop;
    requestAnimationFrame(() => { log.scrollTop = log.scrollHeight - below; });
  });
  findIn(lines);
}

function findIn(lines) {
  const box = document.querySelector('[data-find="lines"]');
  const counter = byId('find-count');
  if (!box || !window.CSS?.highlights) return;
  let hits = [];
  let now = -1;
  let searched = '';
  let timer = 0;
  const mark = () => {
    CSS.highlights.set('found', new Highlight(...hits));
    CSS.highlights.set('found-now', new Highlight(...(hits[now] ? [hits[now]] : [])));
    counter.textContent = box.value.length < 2 ? '' : hits.length === 0 ? 'No match' : (now + 1) + ' of ' + hits.length;
  };
  const search = () => {
    clearTimeout(timer);
    searched = box.value;
    const text = box.value.toLowerCase();
    hits = [];
    now = -1;
    if (text.length > 1) {
      const walker = document.createTreeWalker(lines, NodeFilter.SHOW_TEXT);
      while (walker.nextNode() && hits.length < 2000) {
        const node = walker.currentNode;
        const content = node.data.toLowerCase();
        for (let at = content.indexOf(text); at >= 0; at = content.indexOf(text, at + text.length)) {
          const range = new Range();
          range.setStart(node, at);
          range.setEnd(node, at + text.length);
          hits.push(range);
        }
      }
    }
    mark();
  };
  const go = (step) => {
    if (hits.length === 0) return;
    now = (now + step + hits.length) % hits.length;
    const element = hits[now].startContainer.parentElement;
    const fold = element.closest('details.step');
    if (fold) fold.open = true;
    element.scrollIntoView({ block: 'center' });
    mark();
  };
  box.addEventListener('input', () => { clearTimeout(timer); timer = setTimeout(search, 150); });
  box.addEventListener('keydown', (e) => {
    if (e.key === 'Escape') { box.value = ''; search(); return; }
    if (e.key !== 'Enter' || box.value.length < 2) return;
    e.preventDefault();
    if (box.value !== searched || hits.length === 0) search(); // Enter searches at once
    if (hits.length === 0) { box.form.requestSubmit(); return; }
    go(e.shiftKey ? -1 : 1);
  });
  if (box.value) search();
}

// ---- Screen readers hear changes of a session's state, not every line ----

let status = byId('session-head')?.dataset.status;
document.addEventListener('htmx:after:swap', () => {
  const head = byId('session-head');
  if (!head || head.dataset.status === status) return;
  status = head.dataset.status;
  announce(document.querySelector('h1').textContent.trim() + ': ' + status);
  if (status !== 'Running') for (const button of all('[data-follow]')) button.hidden = true;
});
