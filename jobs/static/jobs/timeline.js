// The timeline by keyboard: one attempt of each lane is in the tab order, arrow keys go from there to its neighbours.
(() => {
  "use strict";
  const STEPS = { ArrowLeft: -1, ArrowRight: 1 };

  function bars(lane) {
    return [...lane.querySelectorAll("a")];
  }

  function moved(event) {
    const bar = event.target.closest?.(".lane a");
    if (!bar || event.ctrlKey || event.altKey || event.metaKey) return;
    const lane = bar.closest(".lane");
    const lanes = [...document.querySelectorAll(".lane")];
    const here = bars(lane).indexOf(bar);
    let next = null;
    if (event.key in STEPS) next = bars(lane)[here + STEPS[event.key]];
    else if (event.key === "Home") next = bars(lane)[0];
    else if (event.key === "End") next = bars(lane).at(-1);
    else if (event.key === "ArrowUp") next = bars(lanes[lanes.indexOf(lane) - 1] ?? lane).at(-1);
    else if (event.key === "ArrowDown") next = bars(lanes[lanes.indexOf(lane) + 1] ?? lane).at(-1);
    if (!next) return;
    event.preventDefault();
    next.focus();
  }

  document.addEventListener("keydown", moved);
})();
