// Sampling options, and the processor that turns logits into a distribution by them.
//
// Numbers are rounded to float32 where the Python package rounds, so that both draw the same tokens.

import { shortened, UsageError } from "../errors.js";
import { checkLargestLogit, Distribution, oneHot, type Processor } from "./distribution.js";

const MIN_TEMPERATURE = 1e-6; // below it, logits / temperature would leave float32's range
const MAX_TEMPERATURE = 1e30; // far beyond it 1 / temperature is 0, and 0 times a masked logit no number

/**
 * Sampling options; the target and the draft share them. They are applied in this order, as in the Python
 * package: temperature, top-n-sigma, top-k, top-p, min-p, XTC.
 */
export interface Sampling {
  /** 0, the default, is greedy; otherwise logits are divided by it. */
  readonly temperature: number;
  /** Keep the k largest logits, and those equal to the k-th; 0 keeps all. */
  readonly topK: number;
  /** Keep the smallest set of most probable tokens whose mass reaches it; 1 keeps all. */
  readonly topP: number;
  /** Keep tokens at least this fraction as probable as the most probable; 0 keeps all. */
  readonly minP: number;
  /** Keep tokens whose logits are at most so many standard deviations below the largest; 0 keeps all. */
  readonly topNSigma: number;
  /**
   * With this probability all tokens that have at least the probability `xtcThreshold` are left out but
   * the least probable of them; 0 leaves none out.
   */
  readonly xtcProbability: number;
  readonly xtcThreshold: number;
}

interface Option {
  /** What it is where it is not given. */
  readonly off: number;
  readonly holds: (value: number) => boolean;
  /** The values that are allowed, in words. */
  readonly give: string;
}

const SHARE: Omit<Option, "off"> = {
  holds: (value) => value >= 0 && value <= 1,
  give: "a number from 0 (off) to 1",
};

/** The table that `edgespec/core/distribution_options.py` has in Python. */
export const OPTIONS: Readonly<Record<keyof Sampling, Option>> = {
  temperature: {
    off: 0,
    holds: (value) => value === 0 || (value >= MIN_TEMPERATURE && value <= MAX_TEMPERATURE),
    give: `0 (greedy) or ${MIN_TEMPERATURE} or more, up to ${MAX_TEMPERATURE}`,
  },
  topK: {
    off: 0,
    holds: (value) => Number.isInteger(value) && value >= 0,
    give: "0 (off) or a whole number above it",
  },
  topP: { off: 1, holds: (value) => value > 0 && value <= 1, give: "a number above 0 and at most 1 (off)" },
  minP: { off: 0, ...SHARE },
  topNSigma: { off: 0, holds: (value) => value >= 0 && value < Infinity, give: "0 (off) or a number above it" },
  xtcProbability: { off: 0, ...SHARE },
  xtcThreshold: { off: 0.1, holds: SHARE.holds, give: "a number from 0 to 1" },
};

/** All sampling options, those of them that are given checked. @throws UsageError: one is out of its range. */
export function samplingOf(given: Partial<Sampling>): Sampling {
  const names = Object.keys(OPTIONS) as (keyof Sampling)[];
  const values = names.map((name) => {
    const { off, holds, give } = OPTIONS[name];
    const value = given[name] ?? off;
    if (typeof value !== "number" || !holds(value)) {
      throw new UsageError(`${name} is ${shortened(value)}; give ${give}`);
    }
    return [name, value] as const;
  });
  return Object.fromEntries(values) as unknown as Sampling;
}

/** Whether every distribution with these options is the arg-max alone. */
export function isGreedy(sampling: Sampling): boolean {
  return sampling.temperature === 0;
}

/** The tokens that were kept so far (null: all), and their logits. */
interface Kept {
  readonly tokens: Int32Array | null;
  readonly logits: Float32Array;
}

/** A processor of logits by these options. @throws ModelError: the largest logit is not finite. */
export function processorOf(sampling: Sampling): Processor {
  return (logits) => {
    const best = argMax(logits);
    const highest = logits[best]!;
    checkLargestLogit(highest);
    return isGreedy(sampling) ? oneHot(best) : sampled(logits, highest, sampling);
  };
}

function sampled(logits: Float32Array, highest: number, sampling: Sampling): Distribution {
  const { temperature, topK, topP, minP, topNSigma } = sampling;
  let kept: Kept = { tokens: null, logits };
  if (topNSigma > 0) kept = atLeast(kept, highest - topNSigma * deviation(logits));
  if (topK > 0 && topK < kept.logits.length) kept = atLeast(kept, nthLargest(kept.logits, topK));
  let weights: Float32Array;
  if (topP < 1) [kept, weights] = nucleus(kept, highest, temperature, topP);
  else {
    // A little lower, so that rounding drops no token that the exact min-p test keeps.
    if (minP > 0) kept = atLeast(kept, highest + temperature * Math.log(minP) - 1e-3);
    weights = expWeights(kept.logits, highest, temperature);
  }
  let { tokens } = kept;
  if (minP > 0) {
    const least = Math.fround(minP);
    const likely = indicesWhere(weights, (weight) => weight >= least); // the most probable weighs exp(0) = 1
    tokens = Int32Array.from(likely, (index) => tokens?.[index] ?? index);
    weights = Float32Array.from(likely, (index) => weights[index]!);
  }
  const scale = Math.fround(1 / sum(weights));
  for (let i = 0; i < weights.length; i++) weights[i] = weights[i]! * scale;
  return withoutTopChoices(tokens, weights, sampling);
}

/** The standard deviation of the finite logits. */
function deviation(logits: Float32Array): number {
  let [count, total, squares] = [0, 0, 0];
  for (const logit of logits) if (Number.isFinite(logit)) [count, total] = [count + 1, total + logit];
  const mean = total / count;
  for (const logit of logits) if (Number.isFinite(logit)) squares += (logit - mean) * (logit - mean);
  return Math.sqrt(squares / count);
}

/**
 * XTC: the mean of the distribution and of the one without its top choices, by the probability that these
 * are left out.
 */
function withoutTopChoices(tokens: Int32Array | null, p: Float32Array, sampling: Sampling): Distribution {
  const { xtcProbability, xtcThreshold } = sampling;
  const least = Math.fround(xtcThreshold);
  const top = xtcProbability > 0 ? indicesWhere(p, (probability) => probability >= least) : [];
  if (top.length < 2) return new Distribution(tokens, p);
  const leftOut = new Set(top);
  leftOut.delete(top.reduce((best, index) => (p[index]! < p[best]! ? index : best)));
  let share = 0;
  for (let i = 0; i < p.length; i++) if (!leftOut.has(i)) share += p[i]!;
  const stays = 1 - xtcProbability;
  const goesOn = stays + xtcProbability / share;
  const mean = p.map((probability, i) => probability * (leftOut.has(i) ? stays : goesOn));
  if (stays > 0) return new Distribution(tokens, mean);
  const kept = indicesWhere(p, () => true).filter((index) => !leftOut.has(index));
  return new Distribution(
    Int32Array.from(kept, (index) => tokens?.[index] ?? index),
    Float32Array.from(kept, (index) => mean[index]!),
  );
}

/** The index of the first maximum, or of the first NaN. */
export function argMax(row: Float32Array): number {
  let [best, highest] = [0, row[0]!];
  for (let i = 0; i < row.length; i++) {
    const value = row[i]!;
    if (value > highest) [best, highest] = [i, value];
    else if (Number.isNaN(value)) return i;
  }
  return best;
}

/** exp((row − highest) / temperature). */
export function expWeights(row: Float32Array, highest: number, temperature: number): Float32Array {
  const weights = new Float32Array(row.length);
  const inverse = Math.fround(1 / temperature);
  for (let i = 0; i < row.length; i++) weights[i] = Math.exp(Math.fround(Math.fround(row[i]! - highest) * inverse));
  return weights;
}

/** The smallest set of most probable tokens that holds `share` of all weight, and their weights; of
 * equal weights the first come first. */
function nucleus(kept: Kept, highest: number, temperature: number, share: number): [Kept, Float32Array] {
  const all = expWeights(kept.logits, highest, temperature);
  const total = sum(all);
  // Sorting a whole vocabulary is slow: sort only tokens that surely hold the share together.
  const enough = share + Math.min(1e-3, (1 - share) / 2);
  let few: number[] = [];
  for (let reach = 4, heavy = -1; heavy <= enough * total && few.length < all.length; reach *= 1.5) {
    const lowest = Math.fround(highest - temperature * reach); // e-folds below the largest weight
    few = indicesWhere(kept.logits, (logit) => logit >= lowest);
    heavy = few.reduce((sum, index) => sum + all[index]!, 0);
  }
  few.sort((a, b) => all[b]! - all[a]!);
  let [count, reached] = [0, 0];
  while (count < few.length && reached < share * total) reached += all[few[count++]!]!;
  const chosen = few.slice(0, count).sort((a, b) => a - b);
  return [only(kept, chosen), Float32Array.from(chosen, (index) => all[index]!)];
}

function atLeast(kept: Kept, lowest: number): Kept {
  const limit = Math.fround(lowest);
  return only(
    kept,
    indicesWhere(kept.logits, (logit) => logit >= limit),
  );
}

function only({ tokens, logits }: Kept, indices: readonly number[]): Kept {
  return {
    tokens: Int32Array.from(indices, (index) => tokens?.[index] ?? index),
    logits: Float32Array.from(indices, (index) => logits[index]!),
  };
}

function indicesWhere(values: Float32Array, holds: (value: number) => boolean): number[] {
  const indices: number[] = [];
  for (let i = 0; i < values.length; i++) if (holds(values[i]!)) indices.push(i);
  return indices;
}

function sum(values: Float32Array): number {
  let total = 0;
  for (let i = 0; i < values.length; i++) total += values[i]!;
  return total;
}

/** The n-th largest value (n from 1), by quickselect on a copy. */
function nthLargest(values: Float32Array, n: number): number {
  const copy = values.slice();
  let [first, last] = [0, copy.length - 1];
  while (first < last) {
    const pivot = copy[(first + last) >>> 1]!;
    let [i, j] = [first, last];
    while (i <= j) {
      while (copy[i]! > pivot) i++;
      while (copy[j]! < pivot) j--;
      if (i <= j) [copy[i++], copy[j--]] = [copy[j]!, copy[i]!];
    }
    if (n - 1 <= j) last = j;
    else if (n - 1 >= i) first = i;
    else break;
  }
  return copy[n - 1]!;
}
