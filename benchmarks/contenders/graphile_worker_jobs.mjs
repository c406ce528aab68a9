// graphile-worker with its local queue, completions in batches.
import { createRequire } from "node:module";
import { main, job } from "./job_counter.mjs";

const require = createRequire(process.env.BENCH_NODE + "/");
const { run, makeWorkerUtils, Logger } = require("graphile-worker");
// How long a job takes; then the worker has its default settings.
const jobMs = Number(process.env.BENCH_JOB_S ?? 0) * 1000;
const connectionString = process.env.BENCH_URL;
const logger = new Logger(() => () => {});
let utils;
const ready = async () => (utils ??= await makeWorkerUtils({ connectionString, logger }));

await main({
  prepare: async () => (await ready()).migrate(),
  bulk: async (count) => {
    for (let begin = 0; begin < count; begin += 1000) {
      const size = Math.min(1000, count - begin);
      await (await ready()).addJobs(Array.from({ length: size }, () => ({ identifier: "noop", payload: {} })));
    }
  },
  one: async (sent) => (await ready()).addJob("noop", { sent }),
  work: async () => {
    if (jobMs) {
      const noop = async () => { job(); await new Promise((f) => setTimeout(f, jobMs)); };
      await run({ connectionString, logger, taskList: { noop } });
      return;
    }
    const local = process.env.BENCH_LATENCY ? {} : { localQueue: { size: 500 }, completeJobBatchDelay: 0, failJobBatchDelay: 0 };
    await run({
      connectionString, logger, concurrency: 24, taskList: { noop: ({ sent }) => job(sent) },
      preset: { worker: { connectionString, concurrentJobs: 24, pollInterval: 1000, ...local } },
    });
  },
});
