// What a job writes, as it writes it: the attempt that writes now, followed at its end or left where it is, searched.
// It stands in blocks of lines, of which those out of sight are not laid out: a piece more costs the same behind a
// hundred thousand lines.
(() => {
  "use strict";
  const BLOCK_LINES = 500;
  const LONGEST_TEXT_NODE = 65536; // appending to one copies it
  const MOST_HITS = 1000;
  const SEARCH_AFTER_MS = 200;

  const shown = new WeakMap(); // output element -> number of the attempt whose text it holds
  const lines = new WeakMap(); // block -> how many lines it holds
  const OUTPUT = '[data-live="job-output"], [data-live="job-text"]';
  const outputs = () => document.querySelectorAll(OUTPUT);
  const attemptOf = (element) => Number((element.dataset.liveCursor || "0").split(":")[0]);

  // Cursors are "<fence>:<seq>"; one attempt is shown at a time, the others are reached from the history.
  function append(event) {
    const output = event.target;
    if (!output.matches?.(OUTPUT)) return;
    event.preventDefault();
    const items = event.detail.items;
    const latest = items.at(-1).data.fence;
    if (latest > known(output)) {
      shown.set(output, latest);
      output.replaceChildren();
    }
    write(output, items.filter(({ data }) => data.fence === latest).map(({ data }) => data.text).join(""));
    searchSoon(output);
  }

  function known(output) {
    if (!shown.has(output)) shown.set(output, 0);
    return shown.get(output);
  }

  // Another attempt began and has written nothing yet: the text of the one before would pass for its own.
  function beginAttempt(event) {
    if (event.target.dataset?.live !== "job") return;
    const state = event.target.querySelector('.job-state[data-status="in_progress"]');
    const number = Number(state?.dataset.fence ?? 0);
    for (const output of outputs()) {
      if (!known(output) || known(output) >= number) continue;
      shown.set(output, number);
      output.replaceChildren();
    }
  }

  function write(output, text) {
    while (text) {
      const block = blockOf(output);
      const [end, count] = endOfLines(text, BLOCK_LINES - lines.get(block));
      addText(block, text.slice(0, end));
      lines.set(block, lines.get(block) + count);
      text = text.slice(end);
    }
  }

  function blockOf(output) {
    const last = output.lastElementChild;
    if (last && lines.get(last) < BLOCK_LINES) return last;
    if (last) close(last);
    const block = document.createElement("span");
    block.className = "block";
    lines.set(block, 0);
    output.append(block);
    return block;
  }

  // What a block out of sight takes up is what it was when it was full: nothing jumps when it is laid out again.
  function close(block) {
    const height = block.offsetHeight;
    block.style.containIntrinsicBlockSize = height ? `auto ${height}px` : `auto ${BLOCK_LINES * 1.5}em`;
    block.classList.add("over");
  }

  // Where the first lines of this number end, and how many there are; a last one without its end is not counted.
  function endOfLines(text, most) {
    let end = 0;
    for (let count = 0; count < most; count += 1) {
      const next = text.indexOf("\n", end);
      if (next < 0) return [text.length, count];
      end = next + 1;
    }
    return [end, most];
  }

  function addText(block, text) {
    const last = block.lastChild;
    if (last && last.length < LONGEST_TEXT_NODE) last.appendData(text);
    else block.append(text); // a text node, never markup
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

  // Searching: matches are ranges that the browser paints; the text stays as it is.
  const found = new WeakMap(); // section -> {hits, at}
  const timers = new WeakMap();
  const sectionOf = (element) => element.closest(".writing");

  function searchSoon(element) {
    const section = sectionOf(element);
    if (!section?.querySelector("[data-search-output]")?.value && !found.has(section)) return;
    clearTimeout(timers.get(section));
    timers.set(section, setTimeout(search, SEARCH_AFTER_MS, section));
  }

  function search(section) {
    const words = section.querySelector("[data-search-output]").value.toLowerCase();
    const hits = words ? hitsIn(section.querySelector(".output"), words) : [];
    found.set(section, { hits, at: Math.min(found.get(section)?.at ?? -1, hits.length - 1) });
    CSS.highlights?.set("output-hits", new Highlight(...hits));
    if (!words) CSS.highlights?.delete("output-hit");
    sayHits(section, words);
  }

  function hitsIn(output, words) {
    const hits = [];
    for (const block of output.children) {
      const text = block.textContent.toLowerCase();
      for (let at = text.indexOf(words); at >= 0 && hits.length < MOST_HITS; at = text.indexOf(words, at + words.length)) {
        hits.push(rangeOf(block, at, at + words.length));
      }
    }
    return hits;
  }

  function rangeOf(block, from, to) {
    const range = new Range();
    let before = 0;
    for (const node of block.childNodes) {
      if (from >= before && from < before + node.length) range.setStart(node, from - before);
      if (to > before && to <= before + node.length) range.setEnd(node, to - before);
      before += node.length;
    }
    return range;
  }

  function sayHits(section, words) {
    const { hits, at } = found.get(section);
    const many = hits.length < MOST_HITS ? hits.length : `${MOST_HITS}+`;
    const text = hits.length ? `${at >= 0 ? `${at + 1} of ` : ""}${many}` : "no match";
    section.querySelector("[data-hits]").textContent = words ? text : "";
  }

  function go(section, by) {
    search(section);
    const result = found.get(section);
    if (!result.hits.length) return;
    result.at = result.at < 0 && by < 0 ? result.hits.length - 1 : (result.at + by + result.hits.length) % result.hits.length;
    show(section, result.hits[result.at]);
    sayHits(section, "these");
  }

  function show(section, range) {
    const output = section.querySelector(".output");
    const box = section.querySelector("[data-follow-switch]");
    box.checked = false;
    follow(box);
    CSS.highlights?.set("output-hit", new Highlight(range));
    range.startContainer.parentElement.classList.remove("over"); // it has no place before it is laid out
    const offset = range.getBoundingClientRect().top - output.getBoundingClientRect().top;
    output.scrollTop += offset - output.clientHeight / 3;
  }

  function pressed(event) {
    const button = event.target.closest("[data-hit]");
    if (button) go(sectionOf(button), Number(button.dataset.hit));
  }

  function typed(event) {
    if (event.key !== "Enter" || !event.target.matches("[data-search-output]")) return;
    event.preventDefault();
    go(sectionOf(event.target), event.shiftKey ? -1 : 1);
  }

  function start(output) {
    shown.set(output, attemptOf(output));
    const text = output.textContent;
    output.replaceChildren();
    write(output, text);
    const searching = sectionOf(output)?.querySelector(".searching");
    if (searching) searching.hidden = false;
  }

  document.addEventListener("live:append", append);
  document.addEventListener("live:updated", beginAttempt);
  document.addEventListener("scroll", scrolled, { capture: true, passive: true });
  document.addEventListener("change", ({ target }) => target.matches("[data-follow-switch]") && follow(target));
  document.addEventListener("input", ({ target }) => target.matches("[data-search-output]") && searchSoon(target));
  document.addEventListener("keydown", typed);
  document.addEventListener("click", pressed);
  for (const output of outputs()) start(output);
  document.querySelectorAll("[data-follow-switch]").forEach(follow);
})();
