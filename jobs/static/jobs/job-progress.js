// <job-progress token="jfv_..." job="7">: how one job stands, live, on a page of any site; without `job`, how many jobs of
// the token's tag stand how. It asks the farm that this file comes from (docs/api.md#on-another-sites-page).
const API = new URL("../../api/v1/", import.meta.url);
const WORDS = {
  pending: "Pending", in_progress: "In progress", success: "Success", failed: "Failed", timed_out: "Timed out", canceled: "Canceled",
};
const PAGE = 200, MOST = 1000; // of a tag's jobs that were there before the page: the newest
const LONGEST_PAUSE_S = 60;
const MOST_STREAMS = 4; // of a page: over HTTP/1.1 a browser has six connections to a farm, and what is more is asked for
let streams = 0;
const LOOK = new CSSStyleSheet(); // which a policy without "unsafe-inline" lets pass
LOOK.replaceSync(":host { display: block } progress { display: block; width: 100% } [hidden] { display: none }");

customElements.define("job-progress", class extends HTMLElement {
  static observedAttributes = ["job", "token"];
  #bar = document.createElement("progress");
  #line = document.createElement("div");
  #result = document.createElement("a");
  #jobs = new Map(); // by id
  #source = null;
  #failures = 0;
  #frame = 0;
  #timer = 0;

  constructor() {
    super();
    this.attachShadow({ mode: "open" }).adoptedStyleSheets = [LOOK];
    this.#line.setAttribute("aria-live", "polite");
    this.#bar.setAttribute("aria-label", "Progress");
    this.#result.append("Result");
    this.#result.hidden = true;
    for (const [part, node] of Object.entries({ status: this.#line, bar: this.#bar, result: this.#result })) node.part = part;
    this.shadowRoot.append(this.#line, this.#bar, this.#result);
  }

  connectedCallback() { this.#begin(); }
  disconnectedCallback() { this.#stop(); }
  attributeChangedCallback() { if (this.isConnected) this.#begin(); }

  get #job() { return this.getAttribute("job"); }

  #address(path, options = {}) {
    return `${new URL(path, API)}?${new URLSearchParams({ ...options, token: this.getAttribute("token") ?? "" })}`;
  }

  #stop() {
    clearTimeout(this.#timer);
    if (this.#source) streams -= 1;
    this.#source?.close();
    this.#source = null;
  }

  #begin() {
    this.#stop();
    this.#jobs = new Map();
    if (streams >= MOST_STREAMS) return void this.#ask();
    streams += 1;
    const source = this.#source = new EventSource(this.#address(this.#job ? `jobs/${this.#job}/events` : "events"));
    if (!this.#job) { // the stream begins with the newest alone
      source.addEventListener("open", () => this.#list(), { once: true });
      source.addEventListener("reset", () => { this.#jobs = new Map(); this.#list(); });
    }
    source.addEventListener("job", ({ data }) => this.#take(JSON.parse(data)));
    source.addEventListener("end", () => this.#stop());
    source.addEventListener("error", () => { // unless it is closed, it comes back
      if (source.readyState !== EventSource.CLOSED) return;
      this.#stop();
      this.#ask();
    });
  }

  #take(job) {
    this.#failures = 0;
    this.#jobs.set(job.id, job);
    this.dispatchEvent(new CustomEvent("job", { detail: job }));
    this.#draw();
  }

  // The jobs from before; what the stream says of one is newer.
  async #list() {
    const jobs = this.#jobs;
    for (let listed = 0, cursor = 0; listed < MOST && cursor !== null; listed += PAGE) {
      const answer = await fetch(this.#address("jobs", { limit: PAGE, ...(cursor && { cursor }) })).catch(() => null);
      if (jobs !== this.#jobs) return;
      if (!answer?.ok) return this.#later();
      const page = await answer.json();
      for (const job of page.jobs) if (!jobs.has(job.id)) jobs.set(job.id, job);
      cursor = page.next;
    }
    this.#draw();
  }

  // Without a stream: it was refused, for good or while the farm has no room, or the page has as many as it may.
  async #ask() {
    const jobs = this.#jobs, job = this.#job;
    const answer = await fetch(this.#address(job ? `jobs/${job}` : "jobs")).catch(() => null);
    if (jobs !== this.#jobs) return;
    if ([401, 403, 404, 422].includes(answer?.status)) return void (this.#line.textContent = "Not shown any more");
    if (answer?.ok) {
      await (job ? answer.json().then((document) => this.#take(document)) : this.#list());
      this.#failures = 1; // and soon again
    }
    if (jobs === this.#jobs && !jobs.get(Number(job))?.ended_at) this.#later();
  }

  #later() {
    const pauseS = Math.min(LONGEST_PAUSE_S, 2 ** ++this.#failures) * (0.5 + Math.random() / 2);
    clearTimeout(this.#timer);
    if (this.isConnected) this.#timer = setTimeout(() => this.#begin(), pauseS * 1000);
  }

  #draw() { // once for all that came together
    this.#frame ||= requestAnimationFrame(() => {
      this.#frame = 0;
      if (this.#job) this.#jobs.forEach((job) => this.#drawOne(job)); else this.#drawCounts([...this.#jobs.values()]);
    });
  }

  #drawOne(job) {
    this.#result.href = this.#address(`jobs/${job.id}`);
    this.#result.hidden = job.status !== "success";
    this.#show(WORDS[job.status] + (job.detail ? ` · ${job.detail}` : ""), job.status === "success" ? 1 : job.progress);
  }

  #drawCounts(jobs) {
    const counts = Object.groupBy(jobs, (job) => job.status);
    const named = Object.keys(WORDS).filter((status) => counts[status]).map((status) => `${WORDS[status]} ${counts[status].length}`);
    this.#show(named.join(" · ") || "No jobs", jobs.length ? jobs.filter((job) => job.ended_at).length / jobs.length : 0);
  }

  #show(text, progress) {
    if (this.#line.textContent !== text) this.#line.textContent = text; // a screen reader says it when it changed
    if (progress === null) this.#bar.removeAttribute("value"); else this.#bar.value = progress;
  }
});
