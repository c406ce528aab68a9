// What the pages of jobs add to live.js: a word when the state changes, and what came of a button.
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

  document.addEventListener("live:updated", updated);
  document.addEventListener("jobs:message", ({ detail }) => window.jobfarm?.toast(detail.sentence, detail.mood));
})();
