// A deployer in TypeScript, written from the contract alone. A workload that runs is a file in a folder.
//
//     node --experimental-strip-types deployer.ts --folder running --target 'Node/*'      (Node 22.6 or newer)

import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, readdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";

import { Gateway, Tables, runningKey, runningOf, targetKey, workloadKey } from "./moorage.ts";
import type { Binding, DecisionEvent, Eviction, Report, Running } from "./moorage.ts";

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
  private tables: Tables | undefined; // nothing before the present was reached for the first time
  private building: Tables | undefined; // what is read since the last reset
  private work: Promise<void> = Promise.resolve();
  private isPending = false; // whether a step has failed

  constructor(folder: string, source: string) {
    this.machines = new Machines(folder);
    this.source = source;
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
      if (step === undefined) return;
      if ("remove" in step) {
        this.machines.stop(step.remove);
        console.log(`stop ${step.remove.workload} on ${step.remove.target}: ${step.reason}`);
        continue;
      }
      const running = runningOf(step.place);
      this.machines.start(running);
      if (runs.length === 0) console.log(`start ${running.workload} on ${running.target}`);
      await this.report(key);
    }
  }

  // Says that what runs where its binding is now is healthy: one workload, or all of them.
  private async report(only?: string): Promise<void> {
    const observedTime = new Date().toISOString();
    const reports: Report[] = [];
    for (const [key, found] of this.machines.list()) {
      const wanted = this.tables?.wanted(key);
      if (wanted === undefined || (only !== undefined && key !== only)) continue;
      if (found.some((one) => one.uid === wanted.uid)) {
        const { target, workload } = wanted;
        const source = this.source;
        reports.push({ target, workload, type: "Healthy", status: "True", reason: "Running", observedTime, source });
      }
    }
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
  },
});
await new Deployer(values.folder, values.source).run(values.target);
