// Claim: whatever was rewound, a call starts from states, and goes through rows, of the text that is left.
//
// The graph is played: a state is a number that every token changes, in order. States that are not rewound, and rows
// of dropped tokens, are found.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Tensor } from "onnxruntime-common";
import type { Host } from "../src/host.js";
import type { CachedPosition } from "../src/pair/prefill.js";
import { RecurrentStates } from "../src/pair/recurrent-states.js";

const RECENT = 64;
const MAX_ROWS = 17;

/** Numbers that look random; a seed has the same ones everywhere. */
class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed;
  }

  below(limit: number): number {
    this.#state = (this.#state * 48_271) % 2_147_483_647;
    return this.#state % limit;
  }
}

const next = (state: number, token: number) => (state * 31 + token + 1) % 65_521;

class PlayedModel {
  readonly states: RecurrentStates;
  readonly cached: CachedPosition[] = [];
  /** Positions that were computed once more. */
  again = 0;

  constructor() {
    const tensor = (_type: string, data: unknown, dims: readonly number[]) => ({ data, dims, dispose() {} });
    this.states = new RecurrentStates({ tensor } as unknown as Host, [{ state: 1, row: 1 }]);
  }

  async score(tokens: readonly number[]): Promise<void> {
    await this.run(tokens);
    const [start, end] = [this.cached.length, this.cached.length + tokens.length];
    const call = tokens.length > MAX_ROWS ? { start, end, isAnswer: false } : null;
    this.cached.push(...tokens.map((token) => ({ key: String(token), call })));
  }

  rewind(length: number): void {
    const call = this.cached[length]?.call;
    const end = call ? call.start : length; // a long call is not rewound in part
    this.cached.length = end;
    this.states.rewind(end);
  }

  async run(tokens: readonly number[]): Promise<void> {
    const step = await this.states.restored(this.cached, MAX_ROWS, tokens.length, tokens.length, (lost) => {
      this.again += lost.length;
      return this.run(lost);
    });
    const feeds: Record<string, Tensor> = {};
    const fetches: Record<string, Tensor | null> = {};
    this.states.begin(step, feeds, fetches);
    const rows = feeds["past_rows.0"]!.data as Float32Array;
    const text = [...this.cached.map(({ key }) => Number(key)), ...tokens];
    let state = (feeds["past_state.0"]!.data as Float32Array)[0]!;
    for (let position = step.source.length; position < text.length; position++) {
      const isKept = position < this.cached.length;
      const token = isKept ? rows[position % RECENT]! : text[position]!;
      assert.equal(token, text[position], `the row of position ${position}`);
      if (position === step.kept) (fetches["present_state.0"]!.data as Float32Array)[0] = state;
      state = next(state, token);
      if (position >= step.kept && !isKept) rows[position % RECENT] = token;
    }
    if (step.kept === text.length) (fetches["present_state.0"]!.data as Float32Array)[0] = state;
    assert.equal(state, text.reduce(next, 0), `the state after ${text.length} positions`);
    this.states.end(step);
  }
}

async function walk(seed: number, furthest: number, model = new PlayedModel()): Promise<number> {
  const random = new Random(seed);
  for (let turn = 0; turn < 400; turn++) {
    const count = turn % 40 === 0 ? 18 + random.below(60) : 1 + random.below(MAX_ROWS);
    await model.score(Array.from({ length: count }, () => random.below(1000)));
    const far = turn % 10 === 9 ? furthest : count;
    model.rewind(Math.max(0, model.cached.length - random.below(far + 1)));
  }
  return model.again;
}

test("short rewinds compute nothing once more", async () => {
  for (let seed = 1; seed <= 8; seed++) assert.equal(await walk(seed, 4), 0);
});

test("a rewind beyond what is kept computes positions once more, as they were", async () => {
  let again = 0;
  for (let seed = 1; seed <= 20; seed++) again += await walk(seed, 400);
  assert.ok(again > 0);
});

test("states that are not rewound are found", async () => {
  const model = new PlayedModel();
  model.states.rewind = () => {};
  await assert.rejects(walk(1, 400, model), /the (row|state)/);
});
