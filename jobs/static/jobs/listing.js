// The list of jobs: boxes that select rows, and a list that stands still while somebody reads or selects in it.
(() => {
  "use strict";
  const listing = document.querySelector("[data-listing]");
  if (!listing) return;
  const list = listing.querySelector("[data-live]");
  const form = document.getElementById("selected");
  const note = listing.querySelector(".held");
  const boxes = () => [...list.querySelectorAll('input[name="job"]')];
  let last = null; // the box that was clicked last: with Shift, all from it on are

  // Selecting

  function counted() {
    const all = boxes();
    const number = all.filter((box) => box.checked).length;
    const text = `${number} selected`;
    const count = form.querySelector(".count");
    if (count.textContent !== text) count.textContent = text;
    const head = list.querySelector("[data-all]");
    if (head) {
      head.checked = number > 0 && number === all.length;
      head.indeterminate = number > 0 && number < all.length;
    }
  }

  function select(event) {
    const box = event.target;
    if (box.matches("[data-all]")) boxes().forEach((each) => { each.checked = box.checked; });
    if (box.name === "job") {
      const all = boxes();
      if (event.shiftKey && last?.isConnected) {
        const [from, to] = [all.indexOf(last), all.indexOf(box)].sort((one, other) => one - other);
        all.slice(from, to + 1).forEach((each) => { each.checked = box.checked; });
      }
      last = box;
    }
    counted();
    settle();
  }

  // What has no script has no use for it: it is put where the table has room for it.
  function addHead() {
    const cell = list.querySelector("thead .pick");
    if (!cell || cell.firstElementChild) return;
    const head = document.createElement("input");
    head.type = "checkbox";
    head.dataset.all = "";
    head.setAttribute("aria-label", "Select all jobs that are shown");
    cell.append(head);
  }

  // Standing still

  const isRead = () => list.getBoundingClientRect().top < 0 || boxes().some((box) => box.checked);

  function settle() {
    if (isRead()) {
      list.dataset.liveStill = "";
      return;
    }
    if (list.hasAttribute("data-live-still")) list.dispatchEvent(new CustomEvent("live:release", { bubbles: true }));
    note.replaceChildren();
  }

  function held({ detail }) {
    if (!detail.fresh) return;
    const show = document.createElement("button");
    show.type = "button";
    show.className = "button small";
    show.textContent = `Show ${detail.fresh} new job${detail.fresh === 1 ? "" : "s"}`;
    show.addEventListener("click", showNew);
    if (note.textContent !== show.textContent) note.replaceChildren(show);
  }

  function showNew() {
    form.reset();
    boxes().forEach((box) => { box.checked = false; });
    listing.scrollIntoView();
    list.dispatchEvent(new CustomEvent("live:release", { bubbles: true }));
    note.replaceChildren();
    counted();
  }

  list.addEventListener("click", (event) => event.target.type === "checkbox" && select(event));
  list.addEventListener("live:held", held);
  list.addEventListener("live:updated", () => { addHead(); counted(); });
  form.addEventListener("reset", () => setTimeout(() => { counted(); settle(); }));
  document.addEventListener("scroll", settle, { passive: true });
  addHead();
  counted();
  settle();
})();
