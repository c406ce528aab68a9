// A JSON value that folds: of the field that was clicked, or reached by the arrows, the path and the value can be copied.
(() => {
  "use strict";
  const { element } = window.jobfarm;
  const NODES = ".json summary, .json .leaf";

  const nodeOf = (place) => place.closest("summary")?.parentElement ?? place.closest(".leaf");

  function stepsTo(node) {
    const steps = [];
    for (let at = node; at && !at.matches(".json"); at = at.parentElement) {
      if (at.dataset.step !== undefined) steps.unshift(JSON.parse(at.dataset.step));
    }
    return steps;
  }

  // As JSONPath (RFC 9535) writes it.
  function pathOf(steps) {
    const named = (step) => (/^[A-Za-z_][A-Za-z0-9_]*$/.test(step) ? `.${step}` : `[${JSON.stringify(step)}]`);
    return `$${steps.map((step) => (typeof step === "number" ? `[${step}]` : named(step))).join("")}`;
  }

  // A number keeps its digits, however many: JavaScript's own have 15.
  const exact = (_, value, context) =>
    typeof value === "number" && context?.source && JSON.rawJSON ? JSON.rawJSON(context.source) : value;

  // The value, as JSON; a text as it is. null where the page does not hold all of it.
  function valueOf(node, steps) {
    const text = node.closest(".json").parentElement.querySelector(".as-text pre")?.textContent ?? "";
    try {
      const value = steps.reduce((inner, step) => inner[step], JSON.parse(text, exact));
      return typeof value === "string" ? value : JSON.stringify(value, null, 2);
    } catch {
      return null;
    }
  }

  function choose(place) {
    const node = nodeOf(place);
    const tree = node.closest(".json");
    tree.querySelector(".chosen")?.classList.remove("chosen");
    (node.querySelector(":scope > summary") ?? node).classList.add("chosen");
    toolsOf(tree).replaceChildren(...tools(node, stepsTo(node)));
  }

  function toolsOf(tree) {
    return tree.querySelector(":scope > .tools") ?? tree.appendChild(element("div", { className: "tools row small" }));
  }

  function tools(node, steps) {
    const path = pathOf(steps);
    return [
      element("code", { textContent: path }),
      copying("Copy path", () => path),
      copying("Copy value", () => valueOf(node, steps)),
    ];
  }

  function copying(words, text) {
    const button = element("button", { className: "button small", type: "button", textContent: words });
    button.addEventListener("click", () => {
      const value = text();
      if (value === null) window.jobfarm.toast("The value is too long for this page; the API has all of it.", "bad");
      else window.jobfarm.copyText(value, button);
    });
    return button;
  }

  function move(event) {
    const here = event.target.closest(NODES);
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!here || !by) return;
    const nodes = [...here.closest(".json").querySelectorAll("summary, .leaf")].filter((node) => node.checkVisibility());
    const next = nodes[nodes.indexOf(here) + by];
    event.preventDefault();
    if (!next) return;
    if (next.matches(".leaf")) next.tabIndex = -1;
    next.focus();
    choose(next);
  }

  document.addEventListener("click", ({ target }) => target.closest(NODES) && choose(target));
  document.addEventListener("keydown", move);
})();
