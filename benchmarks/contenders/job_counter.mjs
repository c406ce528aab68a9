// What a worker of any contender counts: see job_counter.py. hrtime is CLOCK_MONOTONIC too.
const IDLE_S = 0.5;
let count = 0, reported = 0, first = 0, last = 0;
const waits = [];

export const now = () => Number(process.hrtime.bigint()) / 1e9;

export function job(sentAt) {
  last = now();
  if (count === 0) first = last;
  count += 1;
  if (sentAt) waits.push(last - sentAt);
}

setInterval(() => {
  if (count !== reported && now() - last > IDLE_S) {
    reported = count;
    console.log(JSON.stringify({ pid: process.pid, jobs: count, first, last, waits }));
  }
}, 100).unref();

// The verbs that every contender knows, as verbs.py has them; `paced` sends one job each 20 ms and says when that began.
export async function main({ prepare, bulk, one, work }) {
  const verb = process.argv[2];
  const count = Number(process.argv[3] ?? 0), warmUp = Number(process.env.BENCH_WARM_UP ?? 0);
  const many = async (size) => { for (let n = 0; n < size; n += 1) await one(null); };
  if (verb === "prepare") await prepare();
  else if (verb === "work") return work();
  else {
    if (verb === "bulk" && warmUp) await bulk(warmUp);
    if (verb === "bulk") await timed(count, () => bulk(count));
    if (verb === "enqueue") { await many(warmUp); await timed(count, () => many(count)); }
    if (verb === "paced") for (let n = 0; n < count; n += 1) { await one(now()); await new Promise((f) => setTimeout(f, 20)); }
  }
  if (verb === "steady") {
    const pace = Number(process.env.BENCH_PACE_S), began = now();
    for (let n = 0; n < count; n += 1) {
      const early = began + n * pace - now();
      if (early > 0) await new Promise((f) => setTimeout(f, early * 1000));
      await one(now());
    }
  }
  process.exit(0);
}

async function timed(jobs, deed) {
  const began = now();
  await deed();
  console.log(JSON.stringify({ jobs, seconds: now() - began }));
}
