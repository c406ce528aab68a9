// Keeps the live parts of a page up to date over one socket, and shows times in the reader's own zone.
//
// A part is an element that {% live %} or {% live_stream %} made. Events for other scripts, all bubbling:
//   live:updated  a part changed; detail holds {version} and for JSON {data}, or {cursor, items}
//   live:append   cancelable, before items of a stream become text: whoever prevents it shows detail.items itself
//   live:gone     a part is deleted or no longer this viewer's; it was emptied and has data-live-gone
//   live:held     a part that has data-live-still was to change: what it shows was updated, and nothing came, went or
//                 moved; detail holds {fresh}, the number of rows that wait. The event live:release lets it change
//   live:ended    on document: the person is logged out; nothing is updated any more
// <html data-live> says "on", "off" (being reconnected) or "ended". Why it is so: docs/adr/0004-live-queries.md
(() => {
  "use strict";
  if (window.jobfarmLive) return; // a page may name the script twice
  window.jobfarmLive = true;

  const LOGGED_OUT = 4401;
  const TOO_FAST = 4429; // the page requested too much; it would do so again at once
  const FIRST_RETRY_MS = 500; // the ceiling doubles, the wait is anything below it: thousands of pages come back
  const LAST_RETRY_MS = 10000;
  const REST_MS = 15000; // and up to twice that, after TOO_FAST
  const STABLE_MS = 5000;
  const SILENCE_MS = 25000; // then ping whether the other end is there: a sleeping laptop's socket looks open
  const ANSWER_MS = 10000;
  const RELATIVE_MS = 15000;
  const REQUESTS_A_MESSAGE = 50; // far below the server's 64 KB
  const LONGEST_TEXT_NODE = 65536;

  const root = document.documentElement;
  const parts = new Map(); // id -> element
  const ids = new WeakMap(); // element -> id
  const held = new WeakMap(); // element -> the HTML that it is to show once it may change
  let socket = null;
  let attempts = 0;
  let lastId = 0;
  let retryTimer = 0;
  let stableTimer = 0;
  let silenceTimer = 0;
  let scanning = false;
  let leaving = false;

  // The parts of the page

  function scan() {
    scanning = false;
    const gone = [...parts].filter(([, element]) => !element.isConnected).map(([id]) => id);
    gone.forEach((id) => {
      ids.delete(parts.get(id));
      parts.delete(id);
    });
    const fresh = [...document.querySelectorAll("[data-live-args]")].filter((element) => !ids.has(element));
    fresh.forEach((element) => {
      const id = `p${(lastId += 1)}`;
      ids.set(element, id);
      parts.set(id, element);
    });
    showTimes(document);
    if (!socket && parts.size && !retryTimer) connect();
    else if (isOpen()) sendRequests(fresh, gone);
  }

  function scanSoon() {
    if (!scanning) {
      scanning = true;
      queueMicrotask(scan);
    }
  }

  function watchRequest(element) {
    const { live, liveArgs, liveVersion, liveCursor, liveTicket } = element.dataset;
    return {
      id: ids.get(element),
      name: live,
      args: JSON.parse(liveArgs),
      version: liveVersion || undefined,
      cursor: liveCursor || undefined,
      ticket: liveTicket || undefined,
    };
  }

  // The socket

  function connect() {
    retryTimer = 0;
    const opening = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws/live/`);
    socket = opening;
    opening.onopen = () => {
      root.dataset.live = "on";
      stableTimer = setTimeout(() => { attempts = 0; }, STABLE_MS);
      restartSilence();
      sendRequests([...parts.values()], []);
    };
    opening.onmessage = (event) => {
      restartSilence();
      const message = JSON.parse(event.data);
      const element = parts.get(message.state ?? message.append ?? message.gone ?? message.refused);
      if (element) receive(element, message);
    };
    opening.onclose = (event) => lost(opening, event.code);
  }

  function isOpen() {
    return socket !== null && socket.readyState === WebSocket.OPEN;
  }

  function sendRequests(fresh, gone) {
    const language = root.lang || undefined;
    if (gone.length) socket.send(JSON.stringify({ unwatch: gone }));
    for (let i = 0; i < fresh.length; i += REQUESTS_A_MESSAGE) {
      socket.send(JSON.stringify({ watch: fresh.slice(i, i + REQUESTS_A_MESSAGE).map(watchRequest), language }));
    }
  }

  function restartSilence() {
    clearTimeout(silenceTimer);
    silenceTimer = setTimeout(ping, SILENCE_MS);
  }

  function ping() {
    const pinged = socket;
    if (!isOpen()) return;
    pinged.send('{"ping":true}');
    clearTimeout(silenceTimer);
    silenceTimer = setTimeout(() => {
      pinged.close();
      lost(pinged, 0); // a dead connection takes minutes to close
    }, ANSWER_MS);
  }

  function lost(closed, code) {
    if (closed !== socket) return;
    socket = null;
    clearTimeout(stableTimer);
    clearTimeout(silenceTimer);
    if (leaving) return;
    if (code === LOGGED_OUT) {
      root.dataset.live = "ended";
      leaving = true;
      document.dispatchEvent(new CustomEvent("live:ended"));
      return;
    }
    root.dataset.live = "off";
    const below = Math.min(LAST_RETRY_MS, FIRST_RETRY_MS * 2 ** attempts);
    retryTimer = setTimeout(connect, code === TOO_FAST ? REST_MS * (1 + Math.random()) : Math.random() * below);
    attempts += 1;
  }

  function hurry() {
    if (leaving) return;
    if (isOpen()) ping();
    else if (retryTimer) {
      clearTimeout(retryTimer);
      connect();
    }
  }

  // What arrives

  function receive(element, message) {
    if ("state" in message) update(element, message);
    else if ("append" in message) append(element, message);
    else vanish(element, message);
  }

  function update(element, { version, html, data }) {
    if (element.dataset.liveVersion === version) return;
    element.dataset.liveVersion = version;
    if (html !== undefined) swap(element, html);
    emit(element, "live:updated", { version, data });
  }

  function append(element, { cursor, items }) {
    element.dataset.liveCursor = cursor;
    const scroller = element.closest("[data-follow]") ?? element;
    const wasAtEnd = scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 24;
    if (emit(element, "live:append", { cursor, items })) appendText(element, items.map(textOf).join(""));
    if (wasAtEnd) scroller.scrollTop = scroller.scrollHeight;
    emit(element, "live:updated", { cursor, items });
  }

  function textOf({ data }) {
    return typeof data === "object" && data !== null ? String(data.text ?? "") : String(data);
  }

  function appendText(element, text) {
    const last = element.lastChild;
    if (last instanceof Text && last.length < LONGEST_TEXT_NODE) last.appendData(text);
    else element.append(text); // a text node, never markup
  }

  function vanish(element, message) {
    if (message.error) console.warn(`live: ${element.dataset.live}: ${message.message}`);
    parts.delete(ids.get(element)); // ids keeps it, so that it is not taken for a new part
    element.replaceChildren();
    element.dataset.liveGone = "";
    emit(element, "live:gone", {});
  }

  function emit(element, type, detail) {
    return element.dispatchEvent(new CustomEvent(type, { bubbles: true, cancelable: true, detail }));
  }

  // Changing a part without disturbing who uses it
  // What is alike stays the same node, so focus, selection, scrolling and an opened <details> stay as they are.

  function swap(element, html) {
    const template = document.createElement("template");
    template.innerHTML = html;
    showTimes(template.content);
    if (element.hasAttribute("data-live-still")) return hold(element, template.content, html);
    held.delete(element);
    const focused = element.contains(document.activeElement) ? document.activeElement : null;
    const row = focused?.closest("[data-key]");
    const neighbours = row ? [...row.parentNode.children].filter((each) => each.dataset.key) : [];
    morphChildren(element, template.content);
    if (!focused || focused === document.activeElement) return;
    const heir = focused.isConnected ? focused : heirOf(row, neighbours);
    heir?.focus({ preventScroll: true });
  }

  function hold(element, content, html) {
    held.set(element, html);
    const shown = new Map([...element.querySelectorAll("[data-key]")].map((row) => [row.dataset.key, row]));
    const rows = [...content.querySelectorAll("[data-key]")];
    rows.forEach((row) => shown.has(row.dataset.key) && morph(shown.get(row.dataset.key), row));
    emit(element, "live:held", { fresh: rows.filter((row) => !shown.has(row.dataset.key)).length });
  }

  function release({ target }) {
    target.removeAttribute("data-live-still");
    if (held.has(target)) swap(target, held.get(target));
  }

  // Whoever was in a row that is gone goes on in the one that followed it, or came before: not at the head of the page.
  function heirOf(row, neighbours) {
    const index = neighbours.indexOf(row);
    const next = [...neighbours.slice(index + 1), ...neighbours.slice(0, Math.max(index, 0)).reverse()].find((each) => each.isConnected);
    return next?.querySelector("a[href], button, summary");
  }

  function morphChildren(from, to) {
    const kept = new Set([...to.childNodes].map(keyOf));
    for (const node of [...from.childNodes]) if (keyOf(node) && !kept.has(keyOf(node))) node.remove();
    const keyed = new Map([...from.childNodes].filter(keyOf).map((node) => [keyOf(node), node]));
    let here = from.firstChild;
    for (const wanted of [...to.childNodes]) {
      const match = keyOf(wanted) ? keyed.get(keyOf(wanted)) : here && !keyOf(here) ? here : null;
      if (!match || !isAlike(match, wanted)) {
        from.insertBefore(wanted, here);
        continue;
      }
      if (match === here) here = here.nextSibling;
      else move(from, match, here);
      morph(match, wanted);
    }
    while (here) {
      const next = here.nextSibling;
      here.remove();
      here = next;
    }
  }

  // Where a browser can, it moves a node without losing the focus, the selection or a running animation in it.
  function move(parent, node, before) {
    if (parent.moveBefore && parent.isConnected) parent.moveBefore(node, before);
    else parent.insertBefore(node, before);
  }

  function keyOf(node) {
    return node.nodeType === Node.ELEMENT_NODE ? node.dataset.key || node.id || "" : "";
  }

  function isAlike(one, other) {
    return one.nodeType === other.nodeType && one.nodeName === other.nodeName;
  }

  function morph(node, wanted) {
    if (node.nodeType !== Node.ELEMENT_NODE) {
      if (node.nodeValue !== wanted.nodeValue) node.nodeValue = wanted.nodeValue;
      return;
    }
    if (node.isEqualNode(wanted) || node.hasAttribute("data-live-args")) return; // a part within is its own
    for (const { name } of [...node.attributes]) {
      if (!wanted.hasAttribute(name) && !isReaders(node, name)) node.removeAttribute(name);
    }
    for (const { name, value } of [...wanted.attributes]) {
      if (node.getAttribute(name) !== value && !isReaders(node, name)) node.setAttribute(name, value);
    }
    morphChildren(node, wanted);
  }

  function isReaders(node, name) {
    return name === "open" && node.nodeName === "DETAILS";
  }

  // Times

  // In the reader's own way of writing the page's language, if they have one: "en" alone would mean American dates.
  const language = navigator.languages?.find((tag) => tag.split("-")[0] === root.lang.split("-")[0]) ?? known(root.lang);
  const exact = new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "medium" });
  const zoned = new Intl.DateTimeFormat(language, { dateStyle: "medium", timeStyle: "long" });
  const clock = new Intl.DateTimeFormat(language, { timeStyle: "medium" });
  const TICKS = { clock: { timeStyle: "short" }, day: { weekday: "short", hour: "numeric", minute: "2-digit" } };
  const ticks = Object.fromEntries(Object.entries(TICKS).map(([name, parts]) => [name, new Intl.DateTimeFormat(language, parts)]));
  const relative = new Intl.RelativeTimeFormat(language, { numeric: "auto" });
  const FAR_S = 30 * 86400; // what lies further ahead is named by its date
  const UNITS = [["year", 31557600], ["month", 2629800], ["day", 86400], ["hour", 3600], ["minute", 60], ["second", 1]];

  function known(tag) {
    try {
      return Intl.getCanonicalLocales(tag)[0];
    } catch {
      return undefined; // a page may have lang="en_GB", which is no language tag: use the browser's
    }
  }

  function showTimes(within, selector = "time[datetime]") {
    within.querySelectorAll("text[data-time]").forEach((element) => {
      const text = ticks[element.dataset.tick].format(new Date(element.dataset.time));
      if (element.textContent !== text) element.textContent = text;
    });
    within.querySelectorAll(selector).forEach((element) => {
      const moment = new Date(element.dateTime);
      if (Number.isNaN(moment.getTime())) return;
      const [text, title] = [shown(element, moment), inFull(moment)];
      if (element.textContent !== text) element.textContent = text;
      if (text !== title && element.title !== title) element.title = title;
    });
  }

  // The visitor's zone by its name, and the same moment in UTC, as logs have it.
  function inFull(moment) {
    const utc = `${moment.toISOString().slice(0, 19).replace("T", " ")} UTC`;
    return moment.getTimezoneOffset() ? `${zoned.format(moment)}, ${utc}` : utc;
  }

  function shown(element, moment) {
    if (element.hasAttribute("data-relative")) return ago(moment);
    if (element.hasAttribute("data-zone")) return zoned.format(moment);
    const isToday = moment.toDateString() === new Date().toDateString();
    return (element.hasAttribute("data-clock") && isToday ? clock : exact).format(moment);
  }

  function ago(moment) {
    const seconds = (moment.getTime() - Date.now()) / 1000;
    if (seconds > FAR_S) return exact.format(moment);
    const [unit, size] = UNITS.find(([, length]) => Math.abs(seconds) >= length) ?? ["second", 1];
    // What lies ahead is rounded: ten hours, a second later, are not nine.
    return relative.format((seconds > 0 ? Math.round : Math.trunc)(seconds / size), unit);
  }

  // The page's own life

  function start() {
    scan();
    new MutationObserver(scanSoon).observe(document.body, { childList: true, subtree: true });
    setInterval(() => showTimes(document, "time[datetime][data-relative]"), RELATIVE_MS);
    document.addEventListener("live:release", release);
    window.addEventListener("online", hurry);
    document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && hurry());
    window.addEventListener("pagehide", () => { leaving = true; });
    window.addEventListener("pageshow", (event) => {
      if (!event.persisted || root.dataset.live === "ended") return;
      leaving = false; // back from the browser's memory; the socket may not have survived
      if (isOpen()) ping();
      else { socket = null; scanSoon(); }
    });
  }

  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
  else start();
})();
