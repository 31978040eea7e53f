// The rule of a deployer: what is to be done, given the two tables and what runs.

import { strict as assert } from "node:assert";
import { test } from "node:test";

import { Tables, idOf, parseTarget, runningOf, targetKey } from "../src/index.ts";
import type { Binding, Eviction, Step } from "../src/index.ts";

const workload = { kind: "Pod", namespace: "shop", name: "web" };
const target = { kind: "Node", name: "n1" } as const;
const key = "Pod/shop/web|Node/n1";

const bound = (more: Partial<Binding> = {}): Binding => ({
  workload, owner: workload, target, uid: "a", generation: 1, revision: 1, replicas: 0, tolerations: [], requests: {},
  bypassed: false, boundTime: "2026-01-01T00:00:00Z", labels: {}, purgeMode: "", ...more,
});

const evicted = (state: Eviction["state"], more: Partial<Eviction> = {}): Eviction => ({
  workload, owner: workload, target, workloadUid: "a", generation: 1, revision: 1, state, deadline: null, heldBy: [],
  asked: 0, purgeMode: "", taints: [], taintGeneration: 0, reason: "UntoleratedTaint", message: "",
  decidedTime: "2026-01-01T00:00:00Z", reportTime: null, ...more,
});

const what = (step: Step | undefined) =>
  step === undefined ? "nothing" : "place" in step ? `place ${step.place.uid}` : `remove ${step.reason}`;

const cases: [string, Binding | null, Eviction | null, Binding | null, string][] = [
  ["a binding that does not run", bound(), null, null, "place a"],
  ["a binding that runs", bound(), null, bound(), "nothing"],
  ["a changed binding", bound({ revision: 2 }), null, bound(), "place a"],
  ["a suspended binding", bound({ suspended: true }), null, null, "nothing"],
  ["a scheduled eviction", bound(), evicted("Scheduled"), bound(), "nothing"],
  ["a requested eviction", bound(), evicted("Requested"), bound(), "remove UntoleratedTaint"],
  ["a graceful eviction", bound(), evicted("Requested", { purgeMode: "Gracefully" }), bound(), "nothing"],
  ["an ended binding", null, null, bound(), "remove BindingEnded"],
  ["a preserved one", null, null, bound({ preserved: true }), "nothing"],
  ["a namesake", bound({ uid: "b", generation: 2 }), null, bound(), "remove Replaced"],
  ["an older table", bound(), null, bound({ generation: 2 }), "nothing"],
];

for (const [name, binding, eviction, runs, expected] of cases) {
  test(name, () => {
    const tables = new Tables();
    if (binding !== null) assert.equal(tables.fold("bindings", key, binding), key);
    if (eviction !== null) assert.equal(tables.fold("evictions", `${key}|1`, eviction), key);
    assert.equal(what(tables.next(key, runs === null ? [] : [runningOf(runs)])), expected);
  });
}

test("tombstones", () => {
  const tables = new Tables();
  tables.fold("bindings", key, bound());
  tables.fold("bindings", key, null);
  assert.equal(tables.next(key, []), undefined);
});

test("keys of targets", () => {
  for (const text of ["Node/n1", "east:Cluster/c.1"]) assert.equal(targetKey(parseTarget(text)), text);
});

test("the id of a report follows from its source, its condition and its time", () => {
  const report = { target, type: "Ready", status: "True", observedTime: "2026-01-01T00:00:00Z", source: "p" } as const;
  assert.equal(idOf(report), idOf({ ...report }));
  assert.notEqual(idOf(report), idOf({ ...report, source: "q" }));
});
