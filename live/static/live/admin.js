// What the administration is made without: names and roles that screen readers need, of its main part, of Django's search in
// lists of choices, and of select2's boxes, which it makes anew with each choice; and moments as elements, which live.js
// shows in the reader's zone.
(() => {
  const mend = () => {
    for (const icon of document.querySelectorAll(".search-label-icon")) icon.setAttribute("role", "img");
    for (const clear of document.querySelectorAll("ul > .select2-selection__clear")) clear.setAttribute("role", "listitem");
    for (const box of document.querySelectorAll(".select2-container")) {
      const label = box.previousElementSibling?.labels?.[0]?.textContent.trim().replace(/:$/, "");
      if (!label) continue;
      for (const field of box.querySelectorAll(".select2-selection, [role=textbox], .select2-search__field")) {
        field.setAttribute("aria-label", label);
      }
    }
  };

  const MOMENT = /^\s*\d{1,2} [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d UTC\s*$/; // as jobfarm/formats has it

  function markMoments(content) {
    const texts = document.createNodeIterator(content, NodeFilter.SHOW_TEXT);
    const found = [];
    for (let text = texts.nextNode(); text; text = texts.nextNode()) if (MOMENT.test(text.data)) found.push(text);
    for (const text of found.filter(({ parentNode }) => !parentNode.closest("time, textarea, option, pre"))) {
      const time = document.createElement("time");
      time.dateTime = new Date(text.data).toISOString();
      time.textContent = text.data.trim();
      text.replaceWith(time);
    }
  }

  addEventListener("load", () => {
    const content = document.getElementById("content");
    content?.setAttribute("role", "main");
    if (content) markMoments(content);
    const form = document.querySelector("form:has(.admin-autocomplete, .selectfilter)");
    if (!form) return;
    mend();
    new MutationObserver(mend).observe(form, { childList: true, subtree: true });
  });
})();
