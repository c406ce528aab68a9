// Charts by pointer, touch and keyboard: the step pointed at is marked in all charts of a period, and its numbers, which
// stand in the table beside them, are shown above it and read by a screen reader. Live updates keep the step: it is
// remembered by its time, and marked anew where it then lies.
(() => {
  "use strict";
  const MOVES = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };
  const language = navigator.languages?.find((tag) => tag.split("-")[0] === document.documentElement.lang) ?? document.documentElement.lang;
  const clock = new Intl.DateTimeFormat(language, { weekday: "short", hour: "numeric", minute: "2-digit" });
  let chosen = null; // { steps: the chart pointed at, at: when the step begins, in seconds since 1970 }

  const box = document.createElement("div");
  box.className = "step-values";
  box.setAttribute("role", "status");
  box.hidden = true;

  const numbers = ({ dataset }) => ({ begin: Number(dataset.begin), step: Number(dataset.step), steps: Number(dataset.steps) });

  function choose(steps, index) {
    const { begin, step, steps: count } = numbers(steps.closest("[data-charts]"));
    chosen = { steps, at: begin + Math.max(0, Math.min(count - 1, index)) * step };
    show();
  }

  function forget() {
    if (chosen) mark(chosen.steps.closest("[data-charts]"), "");
    chosen = null;
    box.hidden = true;
    box.replaceChildren();
  }

  function indexOf(charts) {
    const { begin, step, steps } = numbers(charts);
    const index = Math.round((chosen.at - begin) / step);
    return index >= 0 && index < steps ? index : null;
  }

  function show() {
    const charts = chosen.steps.isConnected ? chosen.steps.closest("[data-charts]") : null;
    const index = charts && indexOf(charts);
    if (index === null) return forget();
    const width = 1000 / Number(charts.dataset.steps);
    mark(charts, `M${index * width} 0h${width}v1000h${-width}z`);
    write(charts, index);
    place(charts, index);
  }

  function mark(charts, path) {
    charts?.querySelectorAll(".chosen-step").forEach((each) => each.setAttribute("d", path));
  }

  function write(charts, index) {
    const { step } = numbers(charts);
    const title = document.createElement("strong");
    title.textContent = clock.formatRange(chosen.at * 1000, (chosen.at + step) * 1000);
    const content = [title, values(charts, index)];
    if (box.textContent !== content.map((each) => each.textContent).join("")) box.replaceChildren(...content);
    box.hidden = false;
  }

  function values(charts, index) {
    const row = charts.parentNode.querySelector(`[data-key="t${chosen.at}"]`);
    if (row) return listed([...row.querySelectorAll("[data-label]")]);
    const note = document.createElement("p");
    note.textContent = charts.dataset.counted[index] === "1" ? "No job arrived or ended." : "Not counted.";
    return note;
  }

  function listed(cells) {
    const list = document.createElement("dl");
    cells.forEach((cell) => {
      const [term, value] = [document.createElement("dt"), document.createElement("dd")];
      term.textContent = `${cell.dataset.label} `;
      value.textContent = `${cell.textContent.trim().replace(/\s+/g, " ")} `;
      list.append(term, value);
    });
    return list;
  }

  // Above the chart, at the step, within the window's width.
  function place(charts, index) {
    const area = chosen.steps.getBoundingClientRect();
    const middle = area.left + ((index + 0.5) / Number(charts.dataset.steps)) * area.width;
    const most = document.documentElement.clientWidth - box.offsetWidth - 8;
    const above = area.top - box.offsetHeight - 8;
    box.style.left = `${scrollX + Math.max(8, Math.min(most, middle - box.offsetWidth / 2))}px`;
    box.style.top = `${scrollY + (above >= 0 ? above : area.bottom + 32)}px`;
  }

  function pointed(event) {
    const steps = event.target.closest?.("[data-charts] .steps");
    if (!steps) {
      if (chosen && !(event.type === "pointermove" && isKept(event))) forget();
      return;
    }
    const { left, width } = steps.getBoundingClientRect();
    const count = Number(steps.closest("[data-charts]").dataset.steps);
    choose(steps, Math.floor(((event.clientX - left) / width) * count));
  }

  // What was tapped, or is walked through by keys, stays when a pointer moves elsewhere.
  const isKept = (event) => event.pointerType === "touch" || chosen.steps === document.activeElement;

  function pressed(event) {
    const steps = event.target.closest?.("[data-charts] .steps");
    if (!steps || event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.key === "Escape") return forget();
    if (!(event.key in MOVES)) return;
    const charts = steps.closest("[data-charts]");
    const last = Number(charts.dataset.steps) - 1;
    const here = chosen?.steps === steps ? indexOf(charts) : null;
    event.preventDefault();
    if (here === null) choose(steps, event.key === "Home" ? 0 : last);
    else choose(steps, here + MOVES[event.key]);
  }

  document.body.append(box);
  document.addEventListener("pointermove", pointed);
  document.addEventListener("pointerdown", pointed);
  document.addEventListener("keydown", pressed, { capture: true }); // before the page's own keys
  document.addEventListener("focusout", (event) => chosen?.steps === event.target && forget());
  document.addEventListener("live:updated", ({ target }) => chosen && (target.contains(chosen.steps) || !chosen.steps.isConnected) && show());
  window.addEventListener("resize", () => chosen && show());
})();
