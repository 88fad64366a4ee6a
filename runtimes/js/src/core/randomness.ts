// The only two kinds of random draws in the package.
//
// Everything random goes through `Randomness`. So a test can answer each draw itself, walk every
// branch of the shipped loop, and compare the result with the target's distribution in fractions.

import { shortened, UsageError } from "../errors.js";
import { blake2b64 } from "./blake2b.js";
import type { Distribution } from "./distribution.js";

/** A source of random draws. */
export interface Randomness {
  /** The draws of the round that starts after `emitted` tokens. */
  at(emitted: number): Randomness;
  /** True with this probability: always from 1 on, never at 0 or below. */
  bernoulli(probability: number): boolean;
  /** A token id, drawn with probability proportional to its weight. */
  categorical(distribution: Distribution): number;
}

/**
 * Counter-based random numbers: a hash of the seed, the round, and the draw's index in it.
 *
 * The same numbers as `Seeded` of edgespec's Python package: BLAKE2b with digest size 8 of the text
 * "seed:emitted:draw", read as a little-endian integer, of which the upper 53 bits make a number in
 * [0, 1). A round is identified by the number of tokens emitted before it, so draws for tokens that
 * were rejected leave no trace in later rounds.
 */
export class Seeded implements Randomness {
  readonly seed: number;
  #emitted = 0;
  #draws = 0;

  /** @throws UsageError: the seed is no whole number from 0 that a double holds exactly. */
  constructor(seed?: number) {
    if (seed !== undefined && !(Number.isSafeInteger(seed) && seed >= 0)) {
      throw new UsageError(`seed is ${shortened(seed)}; give a whole number from 0 to ${Number.MAX_SAFE_INTEGER}`);
    }
    this.seed = seed ?? newSeed();
  }

  at(emitted: number): this {
    this.#emitted = emitted;
    this.#draws = 0;
    return this;
  }

  /** The next number in [0, 1) of this round. */
  uniform(): number {
    const [low, high] = blake2b64(`${this.seed}:${this.#emitted}:${this.#draws++}`);
    return upper53(low, high) * 2 ** -53;
  }

  bernoulli(probability: number): boolean {
    if (probability >= 1 || probability <= 0) return probability > 0; // certain: nothing is drawn
    return this.uniform() < probability;
  }

  categorical(distribution: Distribution): number {
    if (distribution.size === 1) return distribution.token(0);
    return distribution.token(drawnIndex(distribution.probabilities, this.uniform()));
  }
}

/** The first index at which the cumulative weight exceeds uniform · Σ weights. */
export function drawnIndex(weights: ArrayLike<number>, uniform: number): number {
  let total = 0;
  for (let i = 0; i < weights.length; i++) total += weights[i]!;
  const point = uniform * total;
  let [reached, last] = [0, 0];
  for (let i = 0; i < weights.length; i++) {
    if (weights[i]! > 0) {
      reached += weights[i]!;
      last = i; // rounding can put the point on the total itself: it belongs to the last weight
      if (reached > point) break;
    }
  }
  return last;
}

function newSeed(): number {
  const [low, high] = crypto.getRandomValues(new Uint32Array(2));
  return upper53(low!, high!);
}

/** The upper 53 of 64 bits, which are given in halves. */
function upper53(low: number, high: number): number {
  return high * 2 ** 21 + (low >>> 11);
}
