// What the pages of jobs add to live.js: a word when the state changes, what a replaced job is to do now, and what came of
// a button.
(() => {
  "use strict";

  // The state: announced to screen readers when the job goes from one to another.
  let status = document.querySelector(".job-state")?.dataset.status;

  function updated(event) {
    if (event.target.dataset?.live !== "job") return;
    const state = event.target.querySelector(".job-state");
    if (!state || state.dataset.status === status) return;
    status = state.dataset.status;
    window.jobfarm?.announce(`The job is now ${state.dataset.words}`);
  }

  // What it is to do is read again when a newer submit of its unique key has replaced it.
  let replaced = document.querySelector("[data-replaced]")?.dataset.replaced;

  async function refresh({ target }) {
    const newest = target.dataset?.live === "job-facts" && target.querySelector("[data-replaced]")?.dataset.replaced;
    if (!newest || newest === replaced) return;
    replaced = newest;
    const page = new DOMParser().parseFromString(await (await fetch(location.href)).text(), "text/html");
    for (const part of document.querySelectorAll("[data-of-payload]")) {
      const wanted = page.querySelector(`[data-of-payload="${part.dataset.ofPayload}"]`);
      if (wanted) part.replaceWith(wanted);
    }
  }

  document.addEventListener("live:updated", updated);
  document.addEventListener("live:updated", refresh);
  document.addEventListener("jobs:message", ({ detail }) => window.jobfarm?.toast(detail.sentence, detail.mood));
})();
