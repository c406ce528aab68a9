// pg-boss: bulk insert; its own worker, woken by NOTIFY, in batches of a hundred without a pause while they are full.
import { pathToFileURL } from "node:url";
import { main, job } from "./job_counter.mjs";

const { PgBoss } = await import(pathToFileURL(`${process.env.BENCH_NODE}/node_modules/pg-boss/dist/index.js`));
// How long a job takes; then the worker has its default settings.
const jobMs = Number(process.env.BENCH_JOB_S ?? 0) * 1000;
const QUEUE = "noop";
let boss;
async function ready() {
  if (!boss) {
    boss = new PgBoss({ connectionString: process.env.BENCH_URL, supervise: false, schedule: false, useListenNotify: !jobMs });
    boss.on("error", () => {});
    await boss.start();
  }
  return boss;
}

await main({
  prepare: async () => (await ready()).createQueue(QUEUE, { notify: true }),
  bulk: async (count) => {
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
