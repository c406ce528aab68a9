// The form of a cron: the next ten firings of the schedule that is being typed.
document.addEventListener("DOMContentLoaded", () => {
  "use strict";
  const timing = document.getElementById("id_timing");
  const zone = document.getElementById("id_zone");
  if (!timing || !zone) return;
  const shown = document.createElement("div");
  shown.setAttribute("role", "status");
  shown.className = "cron-preview";
  timing.parentElement.append(shown);
  const address = timing.form.dataset.preview ?? location.pathname.replace(/(add|[^/]+\/change)\/$/, "preview/");
  let timer;
  let asking; // the request whose answer counts

  async function preview() {
    const query = new URLSearchParams({ timing: timing.value, zone: zone.value });
    asking?.abort();
    asking = new AbortController();
    try {
      const answer = await fetch(`${address}?${query}`, { signal: asking.signal });
      if (answer.ok) show(await answer.json());
    } catch {
      // another one was begun, or the farm does not respond: saving says so
    }
  }

  function show({ error, firings }) {
    const title = document.createElement("strong");
    title.textContent = error ?? (firings.length ? "Next firings" : "It never fires.");
    const list = document.createElement("ol");
    list.append(...(firings ?? []).map((text) => Object.assign(document.createElement("li"), { textContent: text })));
    shown.replaceChildren(title, list);
  }

  function soon() {
    clearTimeout(timer);
    if (timing.value.trim()) timer = setTimeout(preview, 300);
  }

  timing.addEventListener("input", soon);
  zone.addEventListener("change", soon);
  soon();
});
