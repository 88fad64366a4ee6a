// Claim: a target verifies only where its logits were measured to be the same bits in all calls.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Rows } from "../src/core/model.js";
import type { Host } from "../src/host.js";
import type { RowInvariance } from "../src/pair/records.js";
import { machineDigest } from "../src/invariance/machine.js";
import { logitsDigest, measureRowInvariance } from "../src/invariance/measure.js";
import { isRowInvariance, rowInvarianceHere, invarianceEntries } from "../src/invariance/invariance.js";

/** A model whose logits are a hash of the text; `fault` may change those of a row. */
class HashModel {
  readonly vocabulary = 11;
  readonly seconds = 0;
  calls = 0;
  freed = false;
  #text: number[] = [];

  constructor(
    readonly fault: (rows: number, row: number, position: number) => number = () => 0,
    readonly capacity = 200,
  ) {}

  get length(): number {
    return this.#text.length;
  }

  get validLength(): number {
    return this.length;
  }

  async prefill(prompt: readonly number[]): Promise<number> {
    this.#text = prompt.slice(0, -1);
    return prompt.at(-1)!;
  }

  async score(tokens: readonly number[]): Promise<Rows> {
    this.calls++;
    return tokens.map((token, row) => {
      this.#text.push(token);
      const hash = this.#text.reduce((sum, token) => (31 * sum + token) % 10_007, 7);
      return new Float32Array(this.vocabulary).fill(hash + this.fault(tokens.length, row, this.length));
    });
  }

  rewind(length: number): void {
    this.#text.length = length;
  }

  freeCache(): void {
    this.freed = true;
  }
}

test("a model whose rows never differ may be called with one position", async () => {
  assert.deepEqual(await measureRowInvariance(new HashModel()), {
    isRowInvariant: true,
    minRows: 1,
    oneRowDifference: 0,
  });
});

test("a difference in calls of one position asks for two", async () => {
  const found = await measureRowInvariance(new HashModel((rows) => (rows === 1 ? 0.5 : 0)));
  assert.deepEqual(found, { isRowInvariant: true, minRows: 2, oneRowDifference: 0.5 });
});

for (const rows of Array.from({ length: 15 }, (_, index) => index + 2)) {
  test(`a difference in calls of ${rows} positions is found`, async () => {
    const found = await measureRowInvariance(new HashModel((count, row) => (count === rows && row === 1 ? 1 : 0)));
    assert.equal(found.isRowInvariant, false);
  });
}

test("a difference far into the cache is found", async () => {
  const found = await measureRowInvariance(
    new HashModel((rows, _, position) => (position > 128 && rows === 5 ? 1 : 0)),
  );
  assert.equal(found.isRowInvariant, false);
});

test("logits that are not finite are refused", async () => {
  await assert.rejects(measureRowInvariance(new HashModel(() => NaN)), /not finite/);
});

test("a cache too small to measure is refused", async () => {
  await assert.rejects(measureRowInvariance(new HashModel(undefined, 30)), /row invariance needs 35/);
});

function host(settings: Partial<Host> = {}): Host & { readonly kept: Map<string, RowInvariance> } {
  const kept = new Map<string, RowInvariance>();
  return {
    kept,
    runtime: "runtime 1",
    provider: "cpu",
    threads: 1,
    cores: 0,
    hardware: "processor",
    writesOutputs: true,
    invariance: {
      shipped: async () => null,
      read: async (graph, machine) => kept.get(graph + machine) ?? null,
      write: async (graph, result) => void kept.set(graph + result.machine, result),
    },
    tensor: () => assert.fail("nothing runs here"),
    ...settings,
  };
}

test("it is measured once, for each graph", async () => {
  const here = host();
  const models: HashModel[] = [];
  const open = () => models[models.push(new HashModel()) - 1]!;
  const first = await rowInvarianceHere(here, "graph", open);
  assert.deepEqual(await rowInvarianceHere(here, "graph", open), first);
  assert.equal(models.length, 1);
  assert.ok(models[0]!.freed);
  assert.ok(isRowInvariance(first));
  await rowInvarianceHere(here, "other graph", open);
  assert.equal(models.length, 2);
});

function shippingHost(shipped: RowInvariance): ReturnType<typeof host> {
  const here = host();
  return { ...here, invariance: { ...here.invariance, shipped: async () => shipped } };
}

test("a shipped result is confirmed by a few calls, and kept", async () => {
  const shipped = await rowInvarianceHere(host(), "graph", () => new HashModel());
  const here = shippingHost({ ...shipped, measured_on: "elsewhere" });
  const model = new HashModel();
  assert.equal((await rowInvarianceHere(here, "graph", () => model)).measured_on, "elsewhere");
  assert.ok(model.calls < 25 && model.freed, `${model.calls} calls`);
  assert.equal((await rowInvarianceHere(here, "graph", () => assert.fail("it is kept"))).measured_on, "elsewhere");
});

for (const [what, model] of [
  ["other logits", () => new HashModel(() => 1)],
  ["calls of one row that differ", () => new HashModel((rows) => (rows === 1 ? 0.5 : 0))],
  ["calls of five rows that differ", () => new HashModel((rows, row) => (rows === 5 && row === 1 ? 1 : 0))],
] as const) {
  test(`${what}: a shipped result does not hold, and it is measured`, async () => {
    const shipped = await rowInvarianceHere(host(), "graph", () => new HashModel());
    const found = await rowInvarianceHere(shippingHost({ ...shipped, measured_on: "elsewhere" }), "graph", model);
    const measured = await rowInvarianceHere(host(), "graph", model);
    assert.deepEqual(found, measured);
    assert.notEqual(found.logits, shipped.logits);
  });
}

test("a shipped result without a digest of logits is not taken", async () => {
  const shipped = await rowInvarianceHere(host(), "graph", () => new HashModel());
  const here = shippingHost({ ...shipped, measured_on: "elsewhere", logits: "" });
  assert.notEqual((await rowInvarianceHere(here, "graph", () => new HashModel())).measured_on, "elsewhere");
});

test("a small cache is measured where it can be, and has no digest", async () => {
  assert.equal(await logitsDigest(new HashModel(undefined, 40)), null);
  const found = await rowInvarianceHere(host(), "graph", () => new HashModel(undefined, 40));
  assert.deepEqual([found.is_row_invariant, found.logits], [true, ""]);
});

test("a damaged file has no results, and a damaged entry is left out", async () => {
  const entry = { graph: "graph", row_invariance: await rowInvarianceHere(host(), "graph", () => new HashModel()) };
  assert.deepEqual(invarianceEntries("<!doctype html>"), []);
  assert.deepEqual(invarianceEntries("{}"), []);
  assert.deepEqual(invarianceEntries(JSON.stringify([{ graph: 1 }, null, entry])), [entry]);
});

test("another runtime, provider, number of threads or processor is another machine", async () => {
  const changes = [
    {},
    { runtime: "runtime 2" },
    { provider: "webgpu" },
    { threads: 2 },
    { threads: 0, cores: 4 },
    { threads: 0, cores: 8 },
    { hardware: "other" },
  ];
  const digests = await Promise.all(changes.map((change) => machineDigest(host(change))));
  assert.equal(new Set(digests).size, changes.length);
});

test("what is no measurement is not taken for one", () => {
  for (const value of [
    null,
    {},
    { is_row_invariant: true, min_rows: 3, max_rows: 17, machine: "", logits: "" },
    { is_row_invariant: true, min_rows: 1, max_rows: 18, machine: "", logits: "" },
  ]) {
    assert.equal(isRowInvariance(value), false);
  }
});
