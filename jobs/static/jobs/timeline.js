// The timeline by pointer: a line of text says which attempt is pointed at; a first tap on a touch screen does that, a
// second one follows the link. By keyboard: one attempt of each lane is in the tab order, arrow keys go from there to its neighbours.
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

  function described(event) {
    const bar = event.target.closest?.(".lane a");
    const line = document.querySelector("[data-pointed-at]");
    if (bar && line) line.textContent = bar.getAttribute("aria-label");
  }

  let pointed = null; // at what a finger pointed last

  function tapped(event) {
    const bar = event.target.closest?.(".lane a");
    const again = bar === pointed;
    pointed = bar;
    if (bar && !again && event.pointerType === "touch") event.preventDefault();
  }

  // Where the lanes are wider than the window, the newest end is what somebody came for.
  const lanes = document.querySelector(".lanes");
  if (lanes) lanes.scrollLeft = lanes.scrollWidth;

  document.addEventListener("keydown", moved);
  document.addEventListener("focusin", described);
  document.addEventListener("pointerover", described);
  document.addEventListener("click", tapped);
})();
