// What every page does: the theme button, menus that close, text that is copied, questions before what cannot be
// undone, toasts. No dependency; everything works on parts that arrive later, because the document listens.
(() => {
  "use strict";
  const root = document.documentElement;

  // Theme: the button turns what is seen into its opposite, and the choice stays on this device.
  const dark = () => (root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches);

  function toggleTheme() {
    root.dataset.theme = dark() ? "light" : "dark";
    try {
      localStorage.setItem("jobfarm-theme", root.dataset.theme);
    } catch {
      // Storage may be forbidden; then the choice lasts as long as the page.
    }
    showTheme();
  }

  function showTheme() {
    for (const button of document.querySelectorAll("[data-toggle-theme]")) {
      button.setAttribute("aria-pressed", String(dark()));
    }
  }

  // Menus: <details class="menu"> opens by itself; here it closes on Escape, on a click elsewhere, and when focus leaves.
  const openMenus = () => document.querySelectorAll("details.menu[open]");

  function closeMenus(except) {
    for (const menu of openMenus()) if (!except || !menu.contains(except)) menu.open = false;
  }

  function closeByEscape(event) {
    if (event.key !== "Escape") return;
    for (const menu of openMenus()) {
      menu.open = false;
      menu.querySelector("summary").focus();
    }
  }

  // Copying: <button data-copy="#id"> copies that element's text and confirms it.
  async function copy(button) {
    const source = document.querySelector(button.dataset.copy);
    const text = "value" in source ? source.value : source.textContent;
    if (await copied(text.trim())) {
      showCopied(button);
    } else {
      getSelection().selectAllChildren(source);
      toast("Copying is not allowed here. The text is selected: press Ctrl+C or ⌘C.", "bad");
    }
  }

  async function copyText(text, button) {
    if (await copied(text)) showCopied(button);
    else toast("Copying is not allowed here: a browser allows it on https and on this machine.", "bad");
  }

  // navigator.clipboard exists only on https and localhost; a farm in a local network is often neither.
  async function copied(text) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      return false;
    }
  }

  function showCopied(button) {
    const word = button.firstChild;
    button.dataset.word ??= word.data;
    word.data = "Copied";
    setTimeout(() => {
      word.data = button.dataset.word;
    }, 2000);
    announce("Copied");
  }

  // Questions: <form data-confirm="Cancel this job?" data-confirm-button="Cancel the job"> asks before it is sent.
  function ask(event) {
    const form = event.target;
    if (!form.dataset.confirm || form.dataset.confirmed) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    const submitter = event.submitter;
    confirm(form.dataset.confirm, form.dataset.confirmButton || "Yes").then((isYes) => {
      if (!isYes) return submitter?.focus();
      form.dataset.confirmed = "yes";
      form.requestSubmit(submitter);
      delete form.dataset.confirmed;
    });
  }

  // The second click of a double click would send the form again: two jobs, or "not found" for what the first deleted.
  const sent = new WeakMap();
  function sendOnce(event) {
    if (event.defaultPrevented || event.target.method !== "post") return;
    if (event.timeStamp - sent.get(event.target) < 2000) return event.preventDefault();
    sent.set(event.target, event.timeStamp);
    const texts = [...event.target.elements].filter(({ type }) => type === "text" || type === "textarea");
    const fields = texts.map(({ name, value }) => [name, value]);
    if (user() && !/^\/(accounts|admin)\//.test(location.pathname)) keepTyped({ user: user(), page: here(), at: Date.now(), fields });
  }

  // What was typed into a form whose sending led to the log-in is there again on the page after it, for the same person
  // within an hour. It stays in this tab.
  const TYPED = "jobfarm-typed";
  const KEPT_MS = 3_600_000;
  const user = () => document.body?.dataset.user; // the administration loads this before its body
  const here = () => location.pathname + location.search;

  function keepTyped(typed) {
    try {
      sessionStorage.setItem(TYPED, JSON.stringify(typed));
    } catch {
      // Storage may be forbidden, or full; then it is typed again.
    }
  }

  function restoreTyped() {
    const typed = JSON.parse(sessionStorage.getItem(TYPED));
    if (!typed) return;
    const isTheirs = (user() ?? typed.user) === typed.user && Math.abs(Date.now() - typed.at) < KEPT_MS;
    if (isTheirs && location.pathname === "/accounts/login/") return keepTyped({ ...typed, isLost: true });
    if (isTheirs && typed.isLost && typed.page !== here()) return;
    sessionStorage.removeItem(TYPED);
    for (const [name, value] of isTheirs && user() && typed.isLost ? typed.fields : []) {
      const field = document.querySelector(`main [name="${CSS.escape(name)}"]`);
      if (field && !field.value) field.value = value;
    }
  }

  // Whether the answer is yes. Enter without reading is no: that button has the focus.
  function confirm(sentence, yes) {
    const dialog = question(sentence, yes);
    document.body.append(dialog);
    dialog.showModal();
    return new Promise((resolve) => {
      dialog.addEventListener("close", () => {
        dialog.remove();
        resolve(dialog.returnValue === "yes");
      });
    });
  }

  function question(sentence, yes) {
    const dialog = element("dialog", { className: "dialog" });
    const form = element("form", { method: "dialog" });
    const row = element("div", { className: "row" });
    const text = element("p", { textContent: sentence, id: "dialog-question" });
    row.append(
      element("button", { className: "button quiet", value: "no", textContent: "Back" }),
      element("button", { className: "button danger", value: "yes", textContent: yes }),
    );
    dialog.setAttribute("aria-labelledby", text.id);
    form.append(text, row);
    dialog.append(form);
    return dialog;
  }

  const element = (name, properties) => Object.assign(document.createElement(name), properties);

  // Toasts: jobfarm.toast("Saved", "good"). Bad news stays until it is closed.
  function toast(sentence, mood = "") {
    const box = element("div", { className: `toast ${mood}` });
    const close = element("button", { type: "button", textContent: "×" });
    close.setAttribute("aria-label", "Close");
    close.addEventListener("click", () => box.remove());
    box.append(element("p", { textContent: sentence }), close);
    document.getElementById("toasts")?.append(box); // the administration has no place for them
    if (mood !== "bad") setTimeout(() => box.remove(), 6000);
  }

  // A short word for screen readers only.
  function announce(words) {
    document.getElementById("announcer").textContent = words;
  }

  // The page's title: a part that says it (data-page-title) says how things stand, also in a tab that nobody looks at.
  function entitle(part) {
    const title = part.querySelector("[data-page-title]")?.dataset.pageTitle;
    if (title) document.title = `${title} · jobfarm`;
  }

  // On a phone the ways scroll sideways; the one that is current must be seen.
  function showWay() {
    const way = document.querySelector(".ways [aria-current]");
    const bar = way?.closest(".ways");
    if (bar) bar.scrollLeft = way.offsetLeft - (bar.clientWidth - way.offsetWidth) / 2;
  }

  // A failed htmx request says so; htmx alone stays silent.
  function explainFailure(event) {
    const answer = event.detail.xhr;
    toast(answer?.status ? `That did not work (${answer.status}). Reload the page and try again.` : "The farm does not respond.", "bad");
  }

  // Once, by the socket that ends or by a button that is answered with the log-in page: so it did nothing.
  let isLoggedOut = false;
  function sayLoggedOut() {
    if (!isLoggedOut) toast("You are logged out: this page is no longer updated, and its buttons do nothing. Reload it to log in again.", "bad");
    isLoggedOut = true;
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-copy], [data-toggle-theme]");
    if (button?.matches("[data-copy]")) copy(button);
    if (button?.matches("[data-toggle-theme]")) toggleTheme();
    closeMenus(event.target);
  });
  document.addEventListener("focusin", (event) => closeMenus(event.target));
  document.addEventListener("keydown", closeByEscape);
  document.addEventListener("submit", ask, true);
  window.addEventListener("submit", sendOnce); // after those on the document, which send some by themselves
  document.addEventListener("htmx:responseError", explainFailure);
  document.addEventListener("htmx:sendError", explainFailure);
  document.addEventListener("htmx:afterRequest", ({ detail: { xhr, pathInfo } }) => {
    if (xhr.responseURL && new URL(xhr.responseURL).pathname !== new URL(pathInfo.requestPath, location).pathname) sayLoggedOut();
  });
  document.addEventListener("live:ended", sayLoggedOut);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", showTheme);
  document.addEventListener("live:updated", ({ target }) => target.querySelector && entitle(target));
  window.addEventListener("resize", showWay);
  showTheme();
  entitle(document);
  showWay();
  try {
    restoreTyped();
  } catch {
    // Storage may be forbidden.
  }
  window.jobfarm = { toast, announce, confirm, copyText, element, sayLoggedOut };
})();
