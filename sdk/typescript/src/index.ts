// What a probe or a deployer in TypeScript needs of Moorage's contract: the rule of a deployer, the stream of decisions,
// and reports. It needs nothing but Node.

import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";

import type { ConditionReported, EvictionDecided, TargetRef, WorkloadBound, WorkloadRef } from "./contract.ts";


export type * from "./contract.ts";
export type Workload = WorkloadRef;
export type Target = TargetRef;
export type Binding = WorkloadBound;
export type Eviction = EvictionDecided;

// What runs, with the numbers of the binding for which it was started.
export interface Running {
  workload: string; target: string; uid: string; generation: number; revision: number; replicas: number;
  preserved?: boolean;
}

export type Step = { place: Binding } | { remove: Running; reason: string };

const inCluster = (cluster: string | undefined, key: string) => (cluster ? `${cluster}:${key}` : key);

export const workloadKey = (w: Workload) => inCluster(w.cluster, `${w.kind}/${w.namespace}/${w.name}`);
export const targetKey = (t: Target) => inCluster(t.cluster, `${t.kind}/${t.name}`);
export const runningKey = (r: Running) => `${r.workload}|${r.target}`;

export function parseTarget(key: string): Target {
  const [head = "", ...name] = key.split("/");
  const parts = head.split(":");
  const kind = parts.pop() ?? "";
  return { kind: kind as Target["kind"], name: name.join("/"), ...(parts.length ? { cluster: parts.join(":") } : {}) };
}

export function runningOf(b: Binding): Running {
  return {
    workload: workloadKey(b.workload), target: targetKey(b.target), uid: b.uid,
    generation: b.generation, revision: b.revision, replicas: b.replicas,
    ...(b.preserved ? { preserved: true } : {}),
  };
}

// Whether an eviction means that its binding must not run any more.
export function mustLeave(e: Eviction): boolean {
  if (e.state === "Requested") return e.purgeMode !== "Gracefully";
  return e.state === "Completed" || (e.state === "Cancelled" && e.reason === "BindingEnded");
}

// The last records of each key.
export class Tables {
  bindings = new Map<string, Binding>();
  evictions = new Map<string, Eviction>();

  // Folds a record in. Returns the key of the binding that it concerns.
  fold(topic: "bindings" | "evictions", key: string, value: Binding | Eviction | null): string {
    if (topic === "bindings") {
      if (value === null) this.bindings.delete(key);
      else this.bindings.set(key, value as Binding);
      return key;
    }
    if (value === null) this.evictions.delete(key);
    else this.evictions.set(key, value as Eviction);
    return key.slice(0, key.lastIndexOf("|"));
  }

  // The eviction of exactly this binding.
  private evictionOf(key: string, uid: string, generation: number): Eviction | undefined {
    const e = this.evictions.get(`${key}|${generation}`);
    return e !== undefined && (!e.workloadUid || e.workloadUid === uid) ? e : undefined;
  }

  // The eviction of a key for which Moorage waits until this source has acknowledged it.
  unacknowledged(key: string, source: string): Eviction | undefined {
    const b = this.bindings.get(key);
    const e = b === undefined ? undefined : this.evictionOf(key, b.uid, b.generation);
    const isRequested = e?.state === "Requested" && e.purgeMode !== "Gracefully";
    return isRequested && e.deployer === source && !e.acknowledged ? e : undefined;
  }

  // The binding of a key if the workload is to run.
  wanted(key: string): Binding | undefined {
    const b = this.bindings.get(key);
    if (b === undefined) return undefined;
    const e = this.evictionOf(key, b.uid, b.generation);
    return e !== undefined && mustLeave(e) ? undefined : b;
  }

  // Compares a key with what runs there. Returns nothing if nothing is to be done.
  next(key: string, runs: readonly Running[]): Step | undefined {
    const bound = this.bindings.get(key);
    const wanted = this.wanted(key);
    for (const r of runs) {
      if (bound?.uid === r.uid && bound.generation < r.generation) return undefined; // what was read is older
      if (wanted?.uid === r.uid) continue;
      const e = this.evictionOf(key, r.uid, r.generation);
      const isEvicted = e !== undefined && mustLeave(e);
      if (r.preserved && bound === undefined && (!isEvicted || e.state === "Cancelled")) return undefined;
      if (isEvicted) return { remove: r, reason: e.reason };
      return { remove: r, reason: bound !== undefined && bound.uid !== r.uid ? "Replaced" : "BindingEnded" };
    }
    if (wanted === undefined || wanted.suspended) return undefined;
    const isApplied = runs.some((r) =>
      r.generation > wanted.generation || (r.generation === wanted.generation && r.revision >= wanted.revision));
    return isApplied ? undefined : { place: wanted };
  }
}

// A report with the name of its source, on which its id rests.
export type Report = ConditionReported & { source: string };

export interface Refusal { reason: string; message: string }
export interface DecisionEvent { name: string; id: string; data: string }

const SILENCE = 45_000; // milliseconds; the gateway says something more often
const LONGEST = 30_000;

export const sleep = (ms: number) => new Promise<void>((done) => setTimeout(done, ms));

// Where Moorage is. MOORAGE_SERVER and MOORAGE_TOKEN_FILE set it.
export class Gateway {
  private server = (process.env["MOORAGE_SERVER"] || "http://127.0.0.1:8080").replace(/\/+$/, "");

  private headers(more: Record<string, string>): Record<string, string> {
    const file = process.env["MOORAGE_TOKEN_FILE"]; // read again each time: tokens are renewed
    return file ? { ...more, authorization: `Bearer ${readFileSync(file, "utf8").trim()}` } : more;
  }

  // Sends reports as one batch. An error means that they may be sent again; refusals will not change.
  async send(reports: readonly Report[]): Promise<Refusal[]> {
    const events = reports.map((data) => ({
      specversion: "1.0", type: "io.moorage.condition.reported.v1", source: data.source, id: idOf(data),
      datacontenttype: "application/json", data,
    }));
    const answer = await fetch(`${this.server}/v1/conditions`, {
      method: "POST", body: JSON.stringify(events), signal: AbortSignal.timeout(LONGEST),
      headers: this.headers({ "content-type": "application/cloudevents-batch+json" }),
    });
    const text = await answer.text();
    let found: { kind?: string; items?: { outcome: string; status?: Refusal }[] } = {};
    try {
      found = JSON.parse(text);
    } catch { /* told below */ }
    if (found.kind !== "ReportOutcomeList") throw new Error(`the gateway answers ${answer.status}: ${text}`);
    return (found.items ?? []).filter((one) => one.outcome === "Refused").map((one) => one.status!);
  }

  // The events of GET /v1/decisions, without end. It goes on where it was after an interruption, once the present was
  // reached.
  async *follow(targets: readonly string[]): AsyncGenerator<DecisionEvent> {
    const state = { last: "" };
    for (let failures = 0; ; failures++) {
      try {
        for await (const event of this.stream(targets, state)) {
          failures = 0;
          yield event;
        }
      } catch (error) {
        console.error(`deployer: the stream was interrupted: ${error}`);
      }
      const pause = Math.min(LONGEST, 200 * 2 ** Math.min(failures, 10));
      await sleep(pause * (0.5 + Math.random() / 2)); // many deployers do not come back at the same moment
    }
  }

  private async *stream(targets: readonly string[], state: { last: string }): AsyncGenerator<DecisionEvent> {
    const query = new URLSearchParams(targets.map((one) => ["target", one]));
    const abort = new AbortController();
    let watchdog = setTimeout(() => abort.abort(), SILENCE);
    try {
      const headers = this.headers(state.last ? { "last-event-id": state.last } : {});
      const answer = await fetch(`${this.server}/v1/decisions?${query}`, { headers, signal: abort.signal });
      if (!answer.ok || answer.body === null) {
        throw new Error(`the gateway answers ${answer.status}: ${await answer.text()}`);
      }
      let rest = "", isPresent = state.last !== "";
      for await (const chunk of answer.body.pipeThrough(new TextDecoderStream())) {
        clearTimeout(watchdog);
        watchdog = setTimeout(() => abort.abort(), SILENCE);
        const parts = (rest + chunk).split("\n\n");
        rest = parts.pop() ?? "";
        for (const part of parts) {
          const event = parse(part);
          if (event.name === "reset") [state.last, isPresent] = ["", false];
          if (event.name === "present") isPresent = true;
          // Ids are versions, and increase: an event that was there before is passed over.
          const isOld = isPresent && event.name !== "present" && event.id !== "" && state.last !== ""
            && Number(event.id) <= Number(state.last);
          if (event.name && !isOld) yield event;
          if (isPresent && event.id) state.last = event.id;
        }
      }
    } finally {
      clearTimeout(watchdog);
      abort.abort();
    }
  }
}

function parse(text: string): DecisionEvent {
  const event: DecisionEvent = { name: "", id: "", data: "" };
  for (const line of text.split("\n")) {
    const colon = line.indexOf(":");
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    const field = colon < 0 ? line : line.slice(0, colon);
    if (field === "event") event.name = value;
    else if (field === "id") event.id = value;
    else if (field === "data") event.data += value;
  }
  return event;
}

// The id follows from the observation, so a report that is sent again counts once.
export function idOf(report: Report): string {
  const workload = report.workload ? workloadKey(report.workload) : "";
  const { source, target, type, observedTime, status, reason, workloadUid = "", bindingGeneration = 0 } = report;
  const binding = [workload, workloadUid, bindingGeneration];
  const observed = [source, targetKey(target), type, observedTime, status, reason, ...binding];
  return createHash("sha256").update(observed.join("\x1f")).digest("hex").slice(0, 32);
}
