// Names and roles that screen readers need, and that the administration is made without: its main part, Django's search in
// lists of choices, and select2's boxes, which it makes anew with each choice.
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

  addEventListener("load", () => {
    document.getElementById("content")?.setAttribute("role", "main");
    const form = document.querySelector("form:has(.admin-autocomplete, .selectfilter)");
    if (!form) return;
    mend();
    new MutationObserver(mend).observe(form, { childList: true, subtree: true });
  });
})();
