// What the pages of jobs add to live.js: a word when the state changes, what a replaced job is to do now, what came of a
// button, the output as it is written, and the beginning of text files.
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

  // What a job writes, as it writes it: the attempt that writes now, followed at its end or left where it is, searched.
  // It stands in blocks of lines, of which those out of sight are not laid out: a piece more costs the same behind a
  // hundred thousand lines.
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

  // The beginning of a text file, read when somebody opens its preview.
  const MOST = 20_000; // characters

  async function preview(event) {
    const details = event.target;
    if (!details.matches?.("[data-preview]") || !details.open) return;
    const pre = details.querySelector("pre");
    if (pre.textContent) return;
    try {
      pre.textContent = await beginningOf(details.dataset.preview);
    } catch {
      pre.textContent = "It cannot be shown here. Save it to look at it.";
    }
  }

  async function beginningOf(address) {
    const answer = await fetch(address);
    if (!answer.ok) throw new Error(String(answer.status));
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return text || "It is empty.";
      text += value;
      if (text.length <= MOST) continue;
      reader.cancel();
      return `${text.slice(0, MOST)}\n… cut here; the file has all of it`;
    }
  }

  document.addEventListener("toggle", preview, true);
})();
