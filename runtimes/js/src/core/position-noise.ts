// The noise of a text's positions, for the coupled rule: stated to the bit, for any language.
//
// Every token x has at position i of the text an exponential number E_i(x), and the token chosen from
// a distribution p is argmax p(x) / E_i(x): an exponential race, in which x wins with probability
// p(x). (It is the Gumbel trick without its second logarithm.) E depends on the seed, the position and
// the token id alone, so a target and a draft with other supports or vocabularies see the same noise.
//
// - The key of a position is BLAKE2b with digest size 16 of the text "seed:position", read as four
//   little-endian 32-bit integers a, b, c, d.
// - `mixed(x, a, b)` below makes 32 bits of a token id; `mixed(x, c, d)` another 32. The first 32 and
//   the upper 20 of the others are one integer of 52 bits; v = (bits + 1/2) / 2^52, exactly.
// - E = -log(1 - v) by `exponential` below: double precision, in which every step rounds once (no
//   fused multiply-add).
// - p(x) / E is one division in double precision. Of equal quotients the smaller token id wins.
//
// So equal probabilities p give the same token in every implementation.

import { blake2b } from "./blake2b.js";
import type { Distribution } from "./distribution.js";

export type NoiseKey = readonly [a: number, b: number, c: number, d: number];

/** A token and p(x) / E: the token with the largest arrives first. */
export type Arrival = readonly [token: number, speed: number];

const LN2 = 0.6931471805599453;
const SQRT_HALF = 0.7071067811865476;
const SERIES = [21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1].map((odd) => 1 / odd); // of atanh(z) / z in z²
const ROUNDING = 1e-9; // relative, more than doubles lose in a bound

/** The key of one position of a text. */
export function noiseKey(seed: number, position: number): NoiseKey {
  const [a, b, c, d] = blake2b(`${seed}:${position}`, 16);
  return [a!, b!, c!, d!];
}

/**
 * The tokens whose p(x) / E is at least 1 / reach of the largest, best first.
 *
 * E ≥ v, so the upper 32 bits bound p(x) / E from above: few tokens need their exact number.
 *
 * @param reach 1 for the chosen token alone, or more.
 */
export function race(distribution: Distribution, [a, b, c, d]: NoiseKey, reach: number): Arrival[] {
  const arrivals: Arrival[] = [];
  let [fastest, limit] = [0, 0];
  for (let index = 0; index < distribution.size; index++) {
    const token = distribution.token(index);
    const weight = distribution.probabilities[index]!;
    const high = mixed(token, a, b);
    if (weight < limit * high) continue;
    const speed = weight / exponential(high * 2 ** 20 + (mixed(token, c, d) >>> 12));
    arrivals.push([token, speed]);
    fastest = Math.max(fastest, speed);
    limit = (fastest / reach) * 2 ** -32 * (1 - ROUNDING);
  }
  arrivals.sort(([, one], [, other]) => other - one); // stable: of equal ones the smaller token first
  return arrivals.filter(([, speed]) => speed >= fastest / reach);
}

/**
 * 32 random bits for a token id: a hash with little bias, Wellons' triple32, of the id and one half of a
 * key; all arithmetic is modulo 2^32.
 */
export function mixed(token: number, a: number, b: number): number {
  let h = token ^ a;
  h = Math.imul(h ^ (h >>> 17), 0xed5ad4bb);
  h = (h ^ (h >>> 11)) + b;
  h = Math.imul(h, 0xac4c1b51);
  h = Math.imul(h ^ (h >>> 15), 0x31848bab);
  return (h ^ (h >>> 14)) >>> 0;
}

/**
 * E = -log(1 - v) with v = (bits + 1/2) / 2^52, for 0 ≤ bits < 2^52.
 *
 * 1 - v = m · 2^power with m in [√½, √2); -log m = 2 atanh(z) with z = (1 - m) / (1 + m).
 */
export function exponential(bits: number): number {
  let [m, power] = [1 - (bits + 0.5) * 2 ** -52, 0];
  for (; m < SQRT_HALF; power--) m *= 2;
  const z = (1 - m) / (1 + m);
  let series = 0;
  for (const coefficient of SERIES) series = series * (z * z) + coefficient;
  return 2 * z * series - power * LN2;
}
