// A probe in TypeScript, written from the contract alone. It reports one condition of one target, once or repeatedly.
//
//     node --experimental-strip-types examples/probe.ts Node/n1 DiskPressure=True --reason Full --every 10      (Node 22.6 or newer)

import { parseArgs } from "node:util";

import { Gateway, parseTarget, sleep } from "../src/index.ts";
import type { Refusal, Report } from "../src/index.ts";

const LIMIT = 30_000; // milliseconds for a single report
const LONGEST = 10_000;

// Tries until Moorage has the report. A report that is sent twice counts once, because its id is the same.
async function send(gateway: Gateway, report: Report): Promise<Refusal[]> {
  const end = Date.now() + LIMIT;
  for (let pause = 200; ; pause = Math.min(2 * pause, LONGEST)) {
    try {
      return await gateway.send([report]);
    } catch (error) {
      if (Date.now() + pause > end) throw error;
      console.error(`probe: ${error}; tried again`);
      await sleep(pause);
    }
  }
}

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    reason: { type: "string", default: "" },
    source: { type: "string", default: "examples/typescript-probe" },
    every: { type: "string", default: "0" }, // seconds
  },
});
const [target, condition = ""] = positionals;
const [type = "", status = ""] = condition.split("=");
if (target === undefined || (status !== "True" && status !== "False" && status !== "Unknown")) {
  console.error("probe: give a target (Kind/name) and a condition (TYPE=STATUS, with True, False or Unknown)");
  process.exit(2);
}
const gateway = new Gateway();
for (;;) {
  // Your probe observes the target here.
  const report: Report = {
    target: parseTarget(target), type, status, reason: values.reason, source: values.source,
    observedTime: new Date().toISOString(),
  };
  let isRefused = false;
  try {
    for (const refusal of await send(gateway, report)) {
      isRefused = true;
      console.error(`probe: the report does not count: ${refusal.reason}: ${refusal.message}`);
    }
  } catch (error) {
    isRefused = true;
    console.error(`probe: Moorage does not accept the report: ${error}`);
  }
  if (!Number(values.every)) {
    if (!isRefused) console.log(report.observedTime, target, condition);
    process.exit(isRefused ? 1 : 0);
  }
  await sleep(1000 * Number(values.every));
}
