// Claim: with the same numbers, this package draws, accepts and corrects as the Python package does.
//
// tests/record_decisions.py wrote the record: 12 000 rounds of three drafted tokens, with every sampling
// option and every rule. Everything follows from the seeds, which are drawn again here.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";
import type { Distribution } from "../src/core/distribution.js";
import { exponential, mixed, noiseKey } from "../src/core/position-noise.js";
import { Coupled, Seeded } from "../src/core/randomness.js";
import { OPTIONS, processorOf, type Sampling, samplingOf } from "../src/core/sampling.js";
import { RULES } from "../src/core/verification.js";

interface Recorded {
  readonly vocabulary: number;
  readonly gamma: number;
  readonly sampling: Readonly<Record<string, number>>;
  readonly options: readonly Partial<Sampling>[];
  readonly uniforms: readonly (readonly [seed: number, numbers: readonly [atThree: number, first: number]])[];
  readonly prompt_tokens: number;
  readonly noise: readonly (readonly [seed: number, position: number, token: number, bits: number, noise: number])[];
  readonly ranked: readonly (readonly [
    seed: number,
    guesses: readonly (readonly [token: number, probability: number])[],
  ])[];
  readonly decisions: readonly (readonly number[])[];
}

const RECORD = new URL("../../tests/decisions.json", import.meta.url);
const DEEP = process.env.EDGESPEC_DEEP === "1";
const recorded = JSON.parse(await readFile(RECORD, "utf8")) as Recorded;

test("seeds draw Python's numbers", () => {
  for (const [seed, [atThree, first]] of recorded.uniforms) {
    assert.equal(new Seeded(seed).at(3).uniform(), atThree);
    assert.equal(new Seeded(seed).uniform(), first);
  }
});

test("the noise of positions is Python's, to the bit", () => {
  for (const [seed, position, token, bits, noise] of recorded.noise) {
    const [a, b, c, d] = noiseKey(seed, position);
    const found = mixed(token, a, b) * 2 ** 20 + (mixed(token, c, d) >>> 12);
    assert.equal(found, bits);
    assert.equal(exponential(found), noise);
  }
});

test("what similar distributions choose is ranked as in Python", () => {
  for (const [seed, guesses] of recorded.ranked) {
    const p = processorOf(samplingOf({ temperature: 1 }))(logits(new Seeded(seed)));
    const found = new Coupled(seed, 0).at(0).ranked(p, 0);
    assert.deepEqual(
      found.map(([token]) => token),
      guesses.map(([token]) => token),
    );
    for (const [index, [, probability]] of guesses.entries())
      assert.ok(Math.abs(found[index]![1] - probability) < 1e-6);
  }
});

test("extreme bits have the stated logarithms", () => {
  for (const bits of [0, 1, 2 ** 51, 2 ** 52 - 1]) {
    const expected =
      bits < 2 ** 51 ? -Math.log1p(-(bits + 0.5) * 2 ** -52) : -Math.log((2 ** 53 - 2 * bits - 1) * 2 ** -53);
    assert.ok(Math.abs(exponential(bits) / expected - 1) < 1e-15);
  }
});

test("the table of sampling options is Python's", () => {
  const off = Object.entries(OPTIONS).map(([name, option]) => [name, option.off]);
  assert.deepEqual(Object.fromEntries(off), recorded.sampling);
});

test("every decision is Python's", () => {
  assert.ok(recorded.decisions.length >= 10_000);
  // A cycle of seeds has every option with every rule; EDGESPEC_DEEP=1 compares all.
  const [cycle, turns] = [3 * recorded.options.length, DEEP ? 1 : 4];
  for (const [seed, expected] of recorded.decisions.entries())
    if (Math.floor(seed / cycle) % turns === 0) assert.deepEqual(decision(seed), expected, `seed ${seed}`);
});

test("the record has full acceptance, rejections and every number of accepted tokens", () => {
  const accepted = new Set(recorded.decisions.map((decision) => decision[recorded.gamma]));
  assert.deepEqual(
    [...accepted].sort((a, b) => a! - b!),
    [0, 1, 2, 3],
  );
});

/** Drafted tokens, the number of accepted ones, and the token after them. */
function decision(seed: number): number[] {
  const numbers = new Seeded(seed);
  const process = processorOf(samplingOf(recorded.options[seed % recorded.options.length]!));
  const rule = (["token", "block", "coupled"] as const)[Math.floor(seed / recorded.options.length) % 3]!;
  const draws = (rule === "coupled" ? new Coupled(seed, recorded.prompt_tokens) : new Seeded(seed)).at(7);
  const q: Distribution[] = [];
  const p: Distribution[] = [];
  const tokens: number[] = [];
  for (let i = 0; i < recorded.gamma; i++) {
    const row = logits(numbers);
    q.push(process(row));
    p.push(process(near(row, numbers)));
    tokens.push(draws.categorical(q.at(-1)!, i));
  }
  p.push(process(logits(numbers)));
  const result = RULES[rule]({ tokens, q, candidates: [] }, { at: (row) => p[row]! }, draws);
  return [...tokens, result.accepted, draws.categorical(result.next, result.accepted)];
}

/** Float32 [vocabulary], 0 to 8 in steps of 1/8: 6 bits of a hash each. */
function logits(numbers: Seeded): Float32Array {
  const key = Math.floor(numbers.uniform() * 2 ** 32);
  return Float32Array.from({ length: recorded.vocabulary }, (_, token) => (mixed(token, key, key) >>> 26) / 8);
}

/** Logits of a target that a draft often agrees with: two thirds of the draft's, a third others. */
function near(row: Float32Array, numbers: Seeded): Float32Array {
  const others = logits(numbers);
  return row.map((logit, token) => (token % 3 === 0 ? others[token]! : logit));
}
