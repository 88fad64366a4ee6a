// Sampling options, and the processor that turns logits into a distribution by them.
//
// Numbers are rounded to float32 where the Python package rounds, so that both draw the same tokens.

import { shortened, UsageError } from "../errors.js";
import { checkLargestLogit, Distribution, oneHot, type Processor } from "./distribution.js";

const MIN_TEMPERATURE = 1e-6; // below it, logits / temperature would leave float32's range

/**
 * Sampling options; the target and the draft share them. They are applied in this order, as in other
 * tools: temperature, top-k, top-p, min-p. `GenerationOptions` explains them.
 */
export interface Sampling {
  readonly temperature: number;
  readonly topK: number;
  readonly topP: number;
  readonly minP: number;
}

/** @throws UsageError: an option is out of its range. */
export function checkSampling({ temperature, topK, topP, minP }: Sampling): void {
  if (!(temperature === 0 || (temperature >= MIN_TEMPERATURE && temperature < Infinity))) {
    throw new UsageError(`temperature is ${shortened(temperature)}; give 0 (greedy) or ${MIN_TEMPERATURE} or more`);
  }
  if (!(Number.isInteger(topK) && topK >= 0)) {
    throw new UsageError(`topK is ${shortened(topK)}; give 0 (off) or a whole number above it`);
  }
  if (!(topP > 0 && topP <= 1)) {
    throw new UsageError(`topP is ${shortened(topP)}; give a number above 0 and at most 1 (off)`);
  }
  if (!(minP >= 0 && minP <= 1)) {
    throw new UsageError(`minP is ${shortened(minP)}; give a number from 0 (off) to 1`);
  }
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

function sampled(logits: Float32Array, highest: number, { temperature, topK, topP, minP }: Sampling): Distribution {
  let kept: Kept = { tokens: null, logits };
  if (topK > 0 && topK < logits.length) kept = atLeast(kept, nthLargest(logits, topK));
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
  return new Distribution(tokens, weights);
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
