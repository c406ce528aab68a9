// What the pages of the game add to live.js: a clock that counts down, a title that says the stage, and a word for
// screen readers when the game moves on. Without it everything still works.
(() => {
  "use strict";
  const TICK_MS = 250; // a second is never shown for longer than it lasts
  const SOON_S = 10;

  function showClocks() {
    for (const clock of document.querySelectorAll("[data-until]")) {
      const remainingS = Math.max(0, Math.ceil((Date.parse(clock.dataset.until) - Date.now()) / 1000));
      const text = `${Math.floor(remainingS / 60)}:${String(remainingS % 60).padStart(2, "0")}`;
      if (clock.textContent !== text) clock.textContent = text;
      clock.classList.toggle("soon", remainingS <= SOON_S);
    }
  }

  let step = document.querySelector("[data-stage]")?.dataset.step;

  function updated(event) {
    showClocks();
    if (event.target.dataset?.live !== "imagegame-table") return;
    const table = event.target.querySelector("[data-stage]");
    if (!table || table.dataset.step === step) return;
    step = table.dataset.step;
    document.title = `${table.dataset.title} · jobfarm`;
    window.jobfarm?.announce(table.dataset.title);
  }

  document.addEventListener("live:updated", updated);
  setInterval(showClocks, TICK_MS);
  showClocks();
})();
