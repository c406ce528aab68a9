// The beginning of a text file, read when somebody opens its preview.
(() => {
  "use strict";
  const MOST = 20_000; // characters

  async function preview(event) {
    const details = event.target;
    if (!details.matches?.("[data-preview]") || !details.open) return;
    const shown = details.querySelector("pre");
    if (shown.textContent) return;
    try {
      shown.textContent = await beginningOf(details.dataset.preview);
    } catch {
      shown.textContent = "It cannot be shown here. Save it to look at it.";
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
