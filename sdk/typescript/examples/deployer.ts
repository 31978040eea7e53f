// A deployer in TypeScript, written from the contract alone. A workload that runs is a file in a folder.
//
//     node --experimental-strip-types examples/deployer.ts --folder running --target 'Node/*'      (Node 22.6 or newer)
//
// It acknowledges evictions: done when the file is gone, failed when it cannot be removed, refused for workloads that
// --protect names.

import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";

import { Gateway, Tables, runningKey, runningOf, targetKey, workloadKey } from "../src/index.ts";
import type { Binding, DecisionEvent, Eviction, Report, Running } from "../src/index.ts";

const HEARTBEAT = 10_000; // milliseconds: a quarter of the default grace period of a source
const TRY_AGAIN = 1_000;
const BATCH = 500;

// The place where workloads run. Each handler may be called again for something that it has done already.
class Machines {
  private folder: string;

  constructor(folder: string) {
    this.folder = folder;
    mkdirSync(folder, { recursive: true });
  }

  list(): Map<string, Running[]> {
    const found = new Map<string, Running[]>();
    for (const name of readdirSync(this.folder).filter((one) => one.endsWith(".json"))) {
      const running = JSON.parse(readFileSync(join(this.folder, name), "utf8")) as Running;
      found.set(runningKey(running), [...(found.get(runningKey(running)) ?? []), running]);
    }
    return found;
  }

  start(running: Running): void {
    const path = this.path(running);
    writeFileSync(`${path}.draft`, JSON.stringify(running));
    renameSync(`${path}.draft`, path); // all or nothing, also if the process is killed now
  }

  stop(running: Running): void {
    rmSync(this.path(running), { force: true });
  }

  private path(running: Running): string {
    // The uid is part of the name, so a new workload of the same name is never taken for the old one.
    const name = createHash("sha256").update(`${runningKey(running)}|${running.uid}`).digest("hex").slice(0, 32);
    return join(this.folder, `${name}.json`);
  }
}

class Deployer {
  private gateway = new Gateway();
  private machines: Machines;
  private source: string;
  private isProtected: Set<string>; // workloads whose evictions are refused
  private said = new Map<string, string>(); // why evicted work was not removed, as reported last, by key
  private tables: Tables | undefined; // nothing before the present was reached for the first time
  private building: Tables | undefined; // what is read since the last reset
  private work: Promise<void> = Promise.resolve();
  private isPending = false; // whether a step has failed

  constructor(folder: string, source: string, isProtected: Iterable<string>) {
    this.machines = new Machines(folder);
    this.source = source;
    this.isProtected = new Set(isProtected);
  }

  async run(targets: string[]): Promise<never> {
    setInterval(() => this.later(() => this.report()), HEARTBEAT);
    setInterval(() => this.isPending && this.later(() => this.actOnAll()), TRY_AGAIN);
    for await (const event of this.gateway.follow(targets)) await this.later(() => this.take(event));
    throw new Error("the stream does not end");
  }

  // Does one thing after the other. What fails is tried again.
  private later(todo: () => Promise<void>): Promise<void> {
    this.work = this.work.then(todo).catch((error) => {
      this.isPending = true;
      console.error(`deployer: ${error}; tried again`);
    });
    return this.work;
  }

  private async take(event: DecisionEvent): Promise<void> {
    if (event.name === "reset") this.building = new Tables();
    else if (event.name === "present" && this.building !== undefined) {
      [this.tables, this.building] = [this.building, undefined];
      await this.actOnAll();
    } else if (event.name === "bindings" || event.name === "evictions") {
      const { key, value } = JSON.parse(event.data) as { key: string; value: Binding | Eviction | null };
      const concerned = (this.building ?? this.tables)?.fold(event.name, key, value);
      if (value !== null && "state" in value && value.state === "Scheduled") {
        const where = `${workloadKey(value.workload)} on ${targetKey(value.target)}`;
        console.log(`prepare ${where}: must leave at ${value.deadline}`);
      }
      if (this.building === undefined && concerned !== undefined) await this.act(concerned);
    }
  }

  private async actOnAll(): Promise<void> {
    if (this.tables === undefined) return;
    this.isPending = false;
    for (const key of new Set([...this.tables.bindings.keys(), ...this.machines.list().keys()])) await this.act(key);
    await this.report();
  }

  // Takes steps about a key until nothing is left to do.
  private async act(key: string): Promise<void> {
    for (;;) {
      const runs = this.machines.list().get(key) ?? [];
      const step = this.tables?.next(key, runs);
      if (step === undefined) return this.acknowledge(key, runs);
      if ("remove" in step) {
        if (this.tables?.unacknowledged(key, this.source) && this.isProtected.has(step.remove.workload)) {
          return this.escalate(key, "Refused", "the workload is protected");
        }
        try {
          this.machines.stop(step.remove);
        } catch (error) {
          await this.escalate(key, "Failed", String(error));
          throw error;
        }
        console.log(`stop ${step.remove.workload} on ${step.remove.target}: ${step.reason}`);
        continue;
      }
      const running = runningOf(step.place);
      this.machines.start(running);
      if (runs.length === 0) console.log(`start ${running.workload} on ${running.target}`);
      await this.report(key);
    }
  }

  // Says that evicted work is gone, also if an earlier process has removed it.
  private async acknowledge(key: string, runs: readonly Running[]): Promise<void> {
    const eviction = this.tables?.unacknowledged(key, this.source);
    if (eviction === undefined) this.said.delete(key);
    else if (!runs.some((one) => one.uid === eviction.workloadUid)) await this.send([this.outcome(eviction, "True")]);
  }

  // Says why evicted work was not removed, unless it has said so already.
  private async escalate(key: string, reason: string, message: string): Promise<void> {
    const eviction = this.tables?.unacknowledged(key, this.source);
    if (eviction === undefined || this.said.get(key) === reason + message) return;
    await this.send([this.outcome(eviction, "False", reason, message)]);
    this.said.set(key, reason + message);
  }

  private outcome(eviction: Eviction, status: Report["status"], reason = "", message = ""): Report {
    const { target, workload, workloadUid, generation: bindingGeneration } = eviction;
    const observedTime = new Date().toISOString();
    const source = this.source;
    return { target, workload, workloadUid, bindingGeneration, type: "Evicted", status, reason, message, observedTime,
      source };
  }

  // Says that what runs where its binding is now is healthy: one workload, or all of them. With all, it repeats what it
  // has acknowledged, until the eviction shows it.
  private async report(only?: string): Promise<void> {
    const observedTime = new Date().toISOString();
    const reports: Report[] = [];
    const runs = this.machines.list();
    for (const [key, found] of runs) {
      const wanted = this.tables?.wanted(key);
      if (wanted === undefined || (only !== undefined && key !== only)) continue;
      const running = found.find((one) => one.uid === wanted.uid);
      if (running !== undefined) {
        const { target, workload } = wanted;
        const { uid: workloadUid, generation: bindingGeneration } = running;
        reports.push({ target, workload, workloadUid, bindingGeneration, type: "Healthy", status: "True",
          reason: "Running", observedTime, source: this.source });
      }
    }
    if (only === undefined) {
      for (const key of this.tables?.bindings.keys() ?? []) await this.acknowledge(key, runs.get(key) ?? []);
    }
    await this.send(reports);
  }

  private async send(reports: readonly Report[]): Promise<void> {
    for (let begin = 0; begin < reports.length; begin += BATCH) {
      for (const refusal of await this.gateway.send(reports.slice(begin, begin + BATCH))) {
        console.error(`deployer: a report does not count: ${refusal.reason}: ${refusal.message}`);
      }
    }
  }
}

const { values } = parseArgs({
  options: {
    folder: { type: "string", default: "running" },
    source: { type: "string", default: "examples/typescript-deployer" },
    target: { type: "string", multiple: true, default: [] },
    protect: { type: "string", multiple: true, default: [] },
  },
});
await new Deployer(values.folder, values.source, values.protect).run(values.target);
