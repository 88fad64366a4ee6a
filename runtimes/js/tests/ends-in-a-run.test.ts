// Claim: a text may end at any token of a drafted run; tokens and rows of logits end there.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Fixed } from "../src/core/controller.js";
import { plain, type Round, speculate } from "../src/core/decode.js";
import { oneHot } from "../src/core/distribution.js";
import type { Drafter, Proposal } from "../src/core/draft.js";
import type { Model, Rows } from "../src/core/model.js";
import { Coupled } from "../src/core/randomness.js";
import { processorOf, samplingOf } from "../src/core/sampling.js";
import { RULES, type RuleName } from "../src/core/verification.js";

const SIZE = 40;
const PROMPT = [3, 4, 5];
const GAMMA = 5;
const LENGTH = 3 * (GAMMA + 1);

/** Logits that the last two tokens name. */
class Hashed implements Model {
  readonly vocabulary = SIZE;
  readonly capacity = 64;
  readonly seconds = 0;
  #cache: number[] = [];

  get length(): number {
    return this.#cache.length;
  }

  get validLength(): number {
    return this.length;
  }

  async prefill(prompt: readonly number[]): Promise<number> {
    this.#cache = prompt.slice(0, -1);
    return prompt.at(-1)!;
  }

  async score(tokens: readonly number[]): Promise<Rows> {
    return tokens.map((token) => {
      this.#cache.push(token);
      const [first, second] = [this.#cache.at(-2) ?? 0, token];
      return Float32Array.from({ length: SIZE }, (_, id) => 4 * Math.sin(37.7 * id + 7.3 * first + 3.1 * second * id));
    });
  }

  rewind(length: number): void {
    assert.ok(length <= this.length);
    this.#cache.length = length;
  }
}

/** Knows the text. */
class Knowing implements Drafter {
  readonly seconds = 0;

  constructor(readonly text: readonly number[]) {}

  begin(): void {}

  async propose(text: readonly number[], gamma: number): Promise<Proposal> {
    const tokens = this.text.slice(text.length - 1, text.length - 1 + gamma);
    return { tokens, q: tokens.map((token) => oneHot(token)), candidates: [] };
  }
}

interface Text {
  readonly tokens: number[];
  readonly rows: number[][];
  accepted: number;
}

async function textOf(rounds: AsyncIterable<Round>): Promise<Text> {
  const text: Text = { tokens: [], rows: [], accepted: 0 };
  for await (const round of rounds) {
    assert.equal(round.logits.length, round.tokens.length);
    assert.ok(round.accepted <= round.evaluated && round.evaluated <= round.drafted);
    text.tokens.push(...round.tokens);
    text.rows.push(...round.logits.map((row) => [...row]));
    text.accepted += round.accepted;
  }
  return text;
}

function decoding(temperature: number, count: number) {
  let seen = 0;
  return {
    target: new Hashed(),
    prompt: PROMPT,
    process: processorOf(samplingOf({ temperature })),
    randomness: new Coupled(7, PROMPT.length),
    maxNewTokens: LENGTH,
    ends: () => ++seen === count,
  };
}

const CASES: readonly (readonly [RuleName, number])[] = [
  ["token", 0],
  ["block", 0],
  ["coupled", 0],
  ["coupled", 1],
];
for (const [rule, temperature] of CASES) {
  test(`${rule} rule at temperature ${temperature}: tokens and rows end with the text`, async () => {
    const whole = await textOf(plain(decoding(temperature, LENGTH)));
    for (let count = 1; count <= LENGTH; count++) {
      const draft = new Knowing(whole.tokens);
      const gamma = new Fixed(GAMMA);
      const found = await textOf(speculate({ ...decoding(temperature, count), draft, gamma, rule: RULES[rule] }));
      assert.deepEqual(found.tokens, whole.tokens.slice(0, count));
      assert.deepEqual(found.rows, whole.rows.slice(0, count));
      assert.ok(count === 1 || found.accepted > 0);
    }
  });
}
