// The only two kinds of random draws in the package.
//
// Everything random goes through `Randomness`. So a test can answer each draw itself, walk every
// branch of the shipped loop, and compare the result with the target's distribution in fractions.

import { shortened, UsageError } from "../errors.js";
import { blake2b } from "./blake2b.js";
import type { Distribution } from "./distribution.js";
import { type Arrival, noiseKey, race } from "./position-noise.js";

// Of `Coupled.ranked`: how much slower than the first its last token may be, and the power of speeds
// whose shares are right most often (docs/measurements/drafting.md).
const REACH = 64;
const POWER = 0.6;

/** A source of random draws. */
export interface Randomness {
  /** The draws of the round that starts after `emitted` tokens. */
  at(emitted: number): Randomness;
  /** True with this probability: always from 1 on, never at 0 or below. */
  bernoulli(probability: number): boolean;
  /**
   * A token id, drawn with probability proportional to its weight.
   *
   * @param ahead how many tokens of the round come before this one: 0 for its first.
   */
  categorical(distribution: Distribution, ahead: number): number;
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
  protected emitted = 0;
  #draws = 0;

  /** @throws UsageError: the seed is no whole number from 0 that a double holds exactly. */
  constructor(seed?: number) {
    if (seed !== undefined && !(Number.isSafeInteger(seed) && seed >= 0)) {
      throw new UsageError(`seed is ${shortened(seed)}; give a whole number from 0 to ${Number.MAX_SAFE_INTEGER}`);
    }
    this.seed = seed ?? newSeed();
  }

  at(emitted: number): this {
    this.emitted = emitted;
    this.#draws = 0;
    return this;
  }

  /** The next number in [0, 1) of this round. */
  uniform(): number {
    const [low, high] = blake2b(`${this.seed}:${this.emitted}:${this.#draws++}`, 8);
    return upper53(low!, high!) * 2 ** -53;
  }

  bernoulli(probability: number): boolean {
    if (probability >= 1 || probability <= 0) return probability > 0; // certain: nothing is drawn
    return this.uniform() < probability;
  }

  categorical(distribution: Distribution, _ahead: number): number {
    if (distribution.size === 1) return distribution.token(0);
    return distribution.token(drawnIndex(distribution.probabilities, this.uniform()));
  }
}

/**
 * Tokens chosen by the noise of their position (`position-noise.ts`).
 *
 * Whoever asks for a position's token uses the same noise, and does so again the next time: the target's
 * choice does not depend on what was drafted, and a draft close to the target makes the same choice. A
 * position is the number of tokens before it, the prompt's and the emitted ones, so the answers of a
 * conversation share no noise.
 */
export class Coupled extends Seeded {
  /** @param promptTokens number of tokens of the prompt. */
  constructor(
    seed: number | undefined,
    readonly promptTokens: number,
  ) {
    super(seed);
  }

  override categorical(distribution: Distribution, ahead: number): number {
    if (distribution.size === 1) return distribution.token(0);
    return this.#race(distribution, ahead, 1)[0]![0];
  }

  /**
   * The token that `categorical` chooses, then those that a similar distribution would, each with a guess
   * of the probability that such a distribution, the target's, chooses it: its share of a power of all
   * speeds in the race.
   */
  ranked(distribution: Distribution, ahead: number): (readonly [token: number, probability: number])[] {
    const arrivals = this.#race(distribution, ahead, REACH);
    const powers = arrivals.map(([, speed]) => speed ** POWER);
    const total = powers.reduce((sum, power) => sum + power, 0);
    return arrivals.map(([token], index) => [token, powers[index]! / total]);
  }

  #race(distribution: Distribution, ahead: number, reach: number): Arrival[] {
    const position = this.promptTokens + this.emitted + ahead;
    return race(distribution, noiseKey(this.seed, position), reach);
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
