// The keyboard: a way to search, through the rows of lists, and to a cancel. What a key does stands in KEYS, which the
// page shows when asked with "?". Keys are for pages, not for fields: while somebody types, none of them does anything;
// and who is in their way (speech control, a screen reader's own keys) turns them off, for this device.
(() => {
  "use strict";
  const OFF = "jobfarm-keys-off";
  const KEYS = [
    ["/", "Search"],
    ["j or ↓", "The next row"],
    ["k or ↑", "The previous row"],
    ["Home, End", "The first row, the last row"],
    ["Enter", "Open the row"],
    ["c", "Cancel the row's job, or what this page shows (asks first)"],
    ["?", "These keys"],
    ["Esc", "Leave a field, close a dialog or menu"],
  ];
  const MOVES = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1, Home: -Infinity, End: Infinity };
  const FIELDS = "input:not([type=checkbox], [type=radio], [type=submit], [type=button]), textarea, select, [contenteditable]";
  const SCROLLERS = ".output, .code, [role=log]"; // arrows scroll these

  // Rows

  const links = () => [...document.querySelectorAll("main .table tbody .main a:first-of-type, main .workers > li .main")].filter((link) => link.offsetParent);

  function move(step) {
    const all = links();
    if (!all.length) return false;
    const here = all.findIndex((link) => rowOf(link).contains(document.activeElement));
    const next = here < 0 ? (step < 0 && step !== -Infinity ? all.length - 1 : step === Infinity ? all.length - 1 : 0) : here + step;
    const link = all[Math.max(0, Math.min(all.length - 1, next))];
    link.focus({ focusVisible: true });
    rowOf(link).scrollIntoView({ block: "nearest" });
    return true;
  }

  const rowOf = (link) => link.closest("tr, li");

  // An arrow moves through rows once one of them has the focus; before, and beyond them, it scrolls as it always does.
  const isInRows = () => document.activeElement?.closest("main .table tbody tr, main .workers > li");

  // Search

  function search() {
    const form = document.querySelector("main form[role=search]");
    const field = form?.querySelector("input:is([type=search], [type=text])") ?? form?.querySelector("select, input");
    if (field) {
      field.focus();
      field.select?.();
    } else if (document.body.dataset.search) {
      location.assign(document.body.dataset.search);
    }
  }

  // Cancel

  function cancel() {
    const row = document.activeElement?.closest("[data-cancel]");
    if (row) return cancelRow(row);
    const form = [...document.querySelectorAll("main form[data-cancels]")].find((each) => each.offsetParent);
    if (form) cancelBy(form);
    return Boolean(form);
  }

  // A form that asks by itself (data-confirm) does so; for one that does not, a key alone is too little.
  async function cancelBy(form) {
    if (form.dataset.confirm || (await window.jobfarm.confirm(form.dataset.cancels, "Cancel it"))) form.requestSubmit();
  }

  async function cancelRow(row) {
    const name = row.querySelector(".main a").textContent.trim().replace(/\s+/g, " ");
    const link = row.querySelector(".main a");
    const yes = await window.jobfarm.confirm(`Cancel ${name}? Its work so far is kept, but the job cannot be resumed.`, "Cancel the job");
    link.focus();
    if (yes) window.htmx.ajax("POST", row.dataset.cancel, { source: document.body, swap: "none" });
  }

  // Help

  function help() {
    const dialog = window.jobfarm.element("dialog", { className: "dialog keys" });
    const title = window.jobfarm.element("h2", { textContent: "Keyboard", id: "keys-title" });
    const list = window.jobfarm.element("dl", {});
    for (const [key, meaning] of KEYS) {
      const term = window.jobfarm.element("dt", {});
      term.append(...key.split(/( or |, )/).map((part) => (/ or |, /.test(part) ? part : window.jobfarm.element("kbd", { textContent: part }))));
      list.append(term, window.jobfarm.element("dd", { textContent: meaning }));
    }
    dialog.setAttribute("aria-labelledby", title.id);
    dialog.append(title, list, foot());
    dialog.addEventListener("close", () => dialog.remove());
    document.body.append(dialog);
    dialog.showModal();
  }

  function foot() {
    const form = window.jobfarm.element("form", { method: "dialog", className: "row" });
    const label = window.jobfarm.element("label", { className: "choice" });
    const box = window.jobfarm.element("input", { type: "checkbox", checked: !isOff() });
    box.addEventListener("change", () => setEnabled(box.checked));
    label.append(box, " Keys without Ctrl or Alt work");
    form.append(label, window.jobfarm.element("button", { className: "button push", textContent: "Close", autofocus: true }));
    return form;
  }

  function setEnabled(on) {
    try {
      if (on) localStorage.removeItem(OFF);
      else localStorage.setItem(OFF, "1");
    } catch {
      // Storage may be forbidden; then keys stay as they are.
    }
  }

  function isOff() {
    try {
      return localStorage.getItem(OFF) === "1";
    } catch {
      return false;
    }
  }

  // The keyboard

  function pressed(event) {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
    if (document.querySelector("dialog[open]")) return;
    const { target, key } = event;
    if (target.matches?.(FIELDS)) {
      if (key === "Escape") target.blur();
      return;
    }
    if (!isOff() && act(key, target)) event.preventDefault();
  }

  function act(key, target) {
    if (key in MOVES) {
      const isLetter = key === "j" || key === "k";
      if (!isLetter && (!isInRows() || target.closest?.(SCROLLERS))) return false;
      return move(MOVES[key]);
    }
    if (key === "/") search();
    else if (key === "?") help();
    else if (key === "c") return cancel();
    else return false;
    return true;
  }

  document.addEventListener("keydown", pressed);
  for (const button of document.querySelectorAll("[data-show-keys]")) {
    button.hidden = false;
    button.addEventListener("click", help);
  }
})();
