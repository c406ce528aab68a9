// What the pages of jobs add to live.js: output that follows its end and begins anew with each attempt, a word
// when the state changes, and what came of a button.
(() => {
  "use strict";

  // Output. Cursors are "<fence>:<seq>"; one attempt is shown at a time, the others are reached from the history.
  const shown = new WeakMap(); // output element -> number of the attempt whose text it holds
  const outputs = () => document.querySelectorAll('[data-live="job-output"]');
  const attemptOf = (element) => shown.get(element) ?? Number((element.dataset.liveCursor || "0").split(":")[0]);

  function append(event) {
    const output = event.target;
    if (!output.matches?.('[data-live="job-output"]')) return;
    const items = event.detail.items;
    const latest = items.at(-1).data.fence;
    if (latest <= known(output)) return; // live.js appends it
    event.preventDefault();
    shown.set(output, latest);
    output.textContent = items.filter(({ data }) => data.fence === latest).map(({ data }) => data.text).join("");
  }

  function known(output) {
    if (!shown.has(output)) shown.set(output, 0);
    return shown.get(output);
  }

  // Another attempt began and has written nothing yet: the text of the one before would pass for its own.
  function beginAttempt(number) {
    for (const output of outputs()) {
      if (known(output) && known(output) < number) {
        shown.set(output, number);
        output.textContent = "";
      }
    }
  }

  // Following: live.js keeps a [data-follow] at its end if it was there. The box says whether it is; unticked, it stays
  // where it is even at the end, since then the section around it, which does not scroll, is what follows.
  function follow(box) {
    const section = box.closest(".writing");
    const output = section.querySelector(".output");
    section.toggleAttribute("data-follow", !box.checked);
    output.toggleAttribute("data-follow", box.checked);
    if (box.checked) output.scrollTop = output.scrollHeight;
  }

  function scrolled(event) {
    const output = event.target;
    const box = output.closest?.(".writing")?.querySelector("[data-follow-switch]");
    if (!box || !output.matches(".output")) return;
    const isAtEnd = output.scrollHeight - output.scrollTop - output.clientHeight < 24;
    if (box.checked && !isAtEnd) {
      box.checked = false;
      follow(box);
    }
  }

  // The state: announced to screen readers when the job goes from one to another.
  let status = document.querySelector(".job-state")?.dataset.status;

  function updated(event) {
    if (event.target.dataset?.live !== "job") return;
    const state = event.target.querySelector(".job-state");
    if (!state) return;
    if (state.dataset.status === "in_progress") beginAttempt(Number(state.dataset.fence));
    if (state.dataset.status !== status) {
      status = state.dataset.status;
      window.jobfarm?.announce(`The job is now ${state.dataset.words}`);
    }
  }

  document.addEventListener("live:append", append);
  document.addEventListener("live:updated", updated);
  document.addEventListener("scroll", scrolled, { capture: true, passive: true });
  document.addEventListener("change", ({ target }) => target.matches("[data-follow-switch]") && follow(target));
  document.addEventListener("jobs:message", ({ detail }) => window.jobfarm?.toast(detail.sentence, detail.mood));
  for (const output of outputs()) shown.set(output, attemptOf(output));
  document.querySelectorAll("[data-follow-switch]").forEach(follow);
})();
