// pg-boss: bulk insert; its own worker, woken by NOTIFY, in batches of a hundred without a pause while they are full.
import { pathToFileURL } from "node:url";
import { main, job } from "./job_counter.mjs";

const { PgBoss } = await import(pathToFileURL(`${process.env.BENCH_NODE}/node_modules/pg-boss/dist/index.js`));
const QUEUE = "noop";
let boss;
async function ready() {
  if (!boss) {
    boss = new PgBoss({ connectionString: process.env.BENCH_URL, supervise: false, schedule: false, useListenNotify: true });
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
    const options = { batchSize: 100, burstWhenBatchFull: true, pollingIntervalSeconds: 0.5 };
    await (await ready()).work(QUEUE, options, async (jobs) => {
      for (const one of jobs) job(one.data?.sent);
    });
  },
});
