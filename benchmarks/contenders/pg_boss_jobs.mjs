// pg-boss: bulk insert; its own worker, woken by NOTIFY, in batches of a hundred without a pause while they are full.
import { pathToFileURL } from "node:url";
import { main, job } from "./job_counter.mjs";

const { PgBoss } = await import(pathToFileURL(`${process.env.BENCH_NODE}/node_modules/pg-boss/dist/index.js`));
// How long a job takes; then the worker has its default settings.
const jobMs = Number(process.env.BENCH_JOB_S ?? 0) * 1000;
const QUEUE = "noop";
const FLOW = process.env.BENCH_FLOW;
let boss;
async function ready() {
  if (!boss) {
    const options = { supervise: false, schedule: false, useListenNotify: !jobMs };
    // What comes after ended jobs it looks for so often at most (its default is each five seconds), and notifies nobody:
    // who listens would look every half minute.
    if (FLOW) Object.assign(options, { supervise: true, flowIntervalSeconds: 1, useListenNotify: false });
    boss = new PgBoss({ connectionString: process.env.BENCH_URL, ...options });
    boss.on("error", () => {});
    await boss.start();
  }
  return boss;
}

await main({
  prepare: async () => (await ready()).createQueue(QUEUE, { notify: !FLOW }),
  bulk: async (count) => {
    if (FLOW) {
      const jobs = Array.from({ length: count }, (_, n) => ({ ref: `${n}`, name: QUEUE }));
      if (FLOW === "chain") jobs.forEach((one, n) => { if (n) one.dependsOn = [`${n - 1}`]; });
      else jobs[count - 1].dependsOn = jobs.slice(0, -1).map((one) => one.ref);
      await (await ready()).flow(jobs);
      return;
    }
    for (let begin = 0; begin < count; begin += 1000) {
      const size = Math.min(1000, count - begin);
      await (await ready()).insert(QUEUE, Array.from({ length: size }, () => ({ data: {} })));
    }
  },
  one: async (sent) => (await ready()).send(QUEUE, { sent }),
  work: async () => {
    if (jobMs) {
      await (await ready()).work(QUEUE, async () => { job(); await new Promise((f) => setTimeout(f, jobMs)); });
      return;
    }
    const options = { batchSize: 100, burstWhenBatchFull: true, pollingIntervalSeconds: 0.5 };
    await (await ready()).work(QUEUE, options, async (jobs) => {
      for (const one of jobs) job(one.data?.sent);
    });
  },
});
