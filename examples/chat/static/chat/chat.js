// What a room adds to live.js: whose is what, a log that stays at its end, forms that leave the page where it is, and
// answers that begin anew with each attempt.
(() => {
  "use strict";
  const room = document.querySelector(".chat-room");
  if (!room) return;
  const log = document.getElementById("log");
  document.documentElement.classList.add("scripted");

  // Whose: a rendering serves the whole group, so what is one's own is marked here. The server decides all the same.
  function mark() {
    for (const message of log.querySelectorAll(".message")) {
      message.classList.toggle("is-mine", message.dataset.by !== "" && message.dataset.by === room.dataset.me);
    }
  }

  // Following: the log stays at its end while it is there, also when pieces of an answer arrive.
  let isAtEnd = true;
  const follows = "follows" in log.dataset;

  function toEnd() {
    if (follows && isAtEnd) log.scrollTop = log.scrollHeight;
  }

  log.addEventListener("scroll", () => {
    isAtEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 48;
    if (isAtEnd) newest.hidden = true;
  }, { passive: true });

  // Who reads further up stays there, and is offered the way to what came meanwhile.
  const newest = document.getElementById("to-newest");
  const lastKey = () => [...log.querySelectorAll(".message")].at(-1)?.dataset.key;
  let seenKey = lastKey();

  function offerNewest() {
    if (follows && !isAtEnd && lastKey() !== seenKey) newest.hidden = false;
    seenKey = lastKey();
  }

  newest.addEventListener("click", () => {
    isAtEnd = true;
    toEnd();
    log.focus();
  });

  // An answer's stream goes on through later attempts. The part shown is of one attempt; the room brings the next.
  function append(event) {
    const shown = event.target.closest?.(".writing");
    if (!shown) return;
    const { items } = event.detail;
    if (items.every(({ data }) => String(data.fence) === shown.dataset.fence)) return; // live.js appends them
    event.preventDefault();
  }

  document.addEventListener("live:append", append);
  document.addEventListener("live:updated", () => {
    mark();
    offerNewest();
    toEnd();
  });

  // Out of the group, or the group is gone: its messages went with the right to see them.
  document.addEventListener("live:gone", ({ target }) => {
    if (target.dataset.live === "chat-room") window.jobfarm?.toast("You are not in this group any more.", "bad");
  });

  // Forms: sent by themselves, and their result is shown. Without this script they load the page anew.
  async function send(event) {
    const form = event.target;
    if (!form.matches("[data-action]") || event.defaultPrevented) return;
    event.preventDefault();
    if (form.dataset.busy) return;
    form.dataset.busy = "yes";
    const body = new FormData(form, event.submitter);
    try {
      const answer = await fetch(form.action, { method: "POST", body, headers: { "HX-Request": "true" } });
      showResult(form, answer);
    } catch {
      window.jobfarm?.toast("The farm does not respond.", "bad");
    } finally {
      delete form.dataset.busy;
    }
  }

  function showResult(form, answer) {
    if (answer.redirected) return window.jobfarm?.sayLoggedOut();
    if (answer.status !== 204) {
      window.jobfarm?.toast(`That did not work (${answer.status}). Reload the page and try again.`, "bad");
      return;
    }
    const { sentence, refused } = JSON.parse(answer.headers.get("HX-Trigger"))["chat:result"];
    if (sentence) window.jobfarm?.toast(sentence, refused ? "bad" : "good");
    if (refused || form.id !== "composer") return;
    form.elements.text.value = "";
    isAtEnd = true;
    toEnd();
  }

  function sendByKey(event) {
    const { target } = event;
    if (event.key !== "Enter" || event.shiftKey || event.isComposing || !target.matches("#composer textarea")) return;
    event.preventDefault();
    target.form.requestSubmit();
  }

  // A phone's keyboard takes half of the window: what remains shows the log and the composer.
  const KEYBOARD_BELOW_PX = 576;
  addEventListener("resize", () => {
    if (innerHeight >= KEYBOARD_BELOW_PX || document.activeElement?.id !== "text") return;
    room.scrollIntoView();
    toEnd();
  });

  document.addEventListener("submit", send);
  document.addEventListener("keydown", sendByKey);
  mark();
  toEnd();
})();
