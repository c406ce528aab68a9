// pg-boss: bulk insert; fetch and complete by the hundred.
import { createRequire } from "node:module";
import { main, job } from "./job_counter.mjs";

const require = createRequire(process.env.BENCH_NODE + "/");
const PgBoss = require("pg-boss");
let boss;
async function ready() {
  if (!boss) {
    boss = new PgBoss({ connectionString: process.env.BENCH_URL, supervise: false, schedule: false });
    await boss.start();
  }
  return boss;
}

await main({
  prepare: async () => (await ready()).createQueue("noop"),
  bulk: async (count) => {
    for (let begin = 0; begin < count; begin += 1000) {
      const size = Math.min(1000, count - begin);
      await (await ready()).insert(Array.from({ length: size }, () => ({ name: "noop", data: {} })));
    }
  },
  one: async (sent) => (await ready()).send("noop", { sent }),
  work: async () => {
    const queue = await ready();
    for (;;) {
      const jobs = await queue.fetch("noop", { batchSize: 100 });
      if (jobs.length === 0) { await new Promise((f) => setTimeout(f, 500)); continue; } // its shortest interval
      for (const one of jobs) job(one.data?.sent);
      await queue.complete("noop", jobs.map((one) => one.id));
    }
  },
});
