// Measures row invariance: whether a position's logits depend on what else is in the call.
//
// Plain decoding scores one new position per call, verification several. The two are certain to give the
// same text only if a position's logits are equal in both: bit by bit, never by a tolerance.

import type { Model } from "../core/model.js";
import { Seeded } from "../core/randomness.js";
import { ModelError } from "../errors.js";
import { sha256Hex } from "../pair/digest.js";
import { MAX_ROWS } from "../pair/manifest.js";

// Cached positions before a text. Kernels may change with the length of the cache, or treat the end of a
// block of positions differently: the texts cross 32, 64 and 128, and these numbers differ modulo 4 and 8.
const STARTS = [1, 20, 58, 119];
const POSITIONS_AFTER_START = 2 * MAX_ROWS;
/** Room for all starts. */
export const MEASURED_CAPACITY = STARTS.at(-1)! + POSITIONS_AFTER_START;

/** A call with the next tokens of a text, and random ones that are rejected afterwards. */
interface MeasuredCall {
  readonly kept: number;
  readonly rejected: number;
}

/** The calls that score a text, or its beginning, one after the other. */
type Walk = readonly MeasuredCall[];

function call(kept: number, rejected = 0): MeasuredCall {
  return { kept, rejected };
}

/** Two calls, the second one with at least two rows. */
function splitAt(rows: number): Walk {
  const rest = MAX_ROWS - rows;
  return [call(rows), call(rest, rest === 1 ? 1 : 0)];
}

// Single rows up to every residue modulo 8. They have a walk of their own: what they leave in the cache
// may differ without harm.
const SINGLE_ROWS: Walk = Array.from({ length: 8 }, () => call(1));
// Rounds that accept 0 to 4 tokens of 1 to 16: what a call rejects must leave no trace.
const ROUNDS: Walk = [call(1, 16), call(2, 3), call(3, 9), call(4, 1), call(5, 7), call(2, 15)];
// Every other number of rows, at the start and further on.
const WALKS: readonly Walk[] = [...Array.from({ length: MAX_ROWS - 2 }, (_, index) => splitAt(index + 2)), ROUNDS];

// The calls whose logits have a digest: all of a text at once, single rows, two halves, rounds.
const CHECKED_START = STARTS[1]!;
const CHECKED_WALKS: readonly Walk[] = [[call(MAX_ROWS)], SINGLE_ROWS, splitAt(5), ROUNDS];

/** What was found, of calls of up to `MAX_ROWS` positions. */
export interface Findings {
  readonly isRowInvariant: boolean;
  readonly minRows: 1 | 2;
  /** Largest difference of a logit between a call of one position and longer calls. */
  readonly oneRowDifference: number;
}

/**
 * Scores the same texts in calls of 1, 2 … 17 rows and compares the logits bit by bit. Calls also have
 * rows that are rejected afterwards, as verification does, so all later logits check the cache that they
 * leave.
 *
 * @param model makes calls with one row when asked for one position, and holds `MEASURED_CAPACITY`
 *   positions or fewer, of which the starts that fit are measured.
 * @throws ModelError: a logit is not finite, or the cache is too small to measure.
 */
export async function measureRowInvariance(model: Model): Promise<Findings> {
  const draws = new Draws(model.vocabulary);
  const starts = STARTS.filter((start) => start + POSITIONS_AFTER_START <= model.capacity);
  if (starts.length === 0) {
    throw new ModelError(
      `the cache holds ${model.capacity} positions; row invariance needs ${STARTS[0]! + POSITIONS_AFTER_START} to be measured`,
    );
  }
  let [isRowInvariant, oneRowDifference] = [true, 0];
  for (const start of starts) {
    await fill(model, start, draws);
    const sequence = draws.tokens(MAX_ROWS);
    const expected = copied(await model.score(sequence));
    model.rewind(start);
    oneRowDifference = Math.max(
      oneRowDifference,
      largestDifference(await scored(model, sequence, SINGLE_ROWS, draws), expected),
    );
    for (const walk of WALKS) {
      const difference = largestDifference(await scored(model, sequence, walk, draws), expected);
      isRowInvariant &&= difference === 0;
    }
  }
  return { isRowInvariant, minRows: oneRowDifference === 0 ? 1 : 2, oneRowDifference };
}

/**
 * SHA-256 of the logits of a few calls: the same only where the model computes the same bits.
 *
 * @returns null where the cache is too small for these calls.
 */
export async function logitsDigest(model: Model): Promise<string | null> {
  if (model.capacity < CHECKED_START + POSITIONS_AFTER_START) return null;
  const draws = new Draws(model.vocabulary);
  await fill(model, CHECKED_START, draws);
  const sequence = draws.tokens(MAX_ROWS);
  const digests: string[] = [];
  for (const walk of CHECKED_WALKS) {
    for (const row of await scored(model, sequence, walk, draws)) digests.push(await sha256Hex(bytesOf(row)));
  }
  return sha256Hex(digests.join());
}

/** Fills the cache with random tokens, as a prompt; an encoder takes the prompt itself. */
async function fill(model: Model, start: number, draws: Draws): Promise<void> {
  await model.prefill(draws.tokens(start + 1));
  while (model.length < start) await model.score(draws.tokens(Math.min(start - model.length, MAX_ROWS)));
}

/** The logits after each token of `sequence` that the calls of `walk` keep; the cache is as before. */
async function scored(model: Model, sequence: readonly number[], walk: Walk, draws: Draws): Promise<Float32Array[]> {
  const start = model.length;
  const logits: Float32Array[] = [];
  for (const { kept, rejected } of walk) {
    const next = sequence.slice(logits.length, logits.length + kept);
    const rows = await model.score([...next, ...draws.tokens(rejected)]);
    logits.push(...copied(rows.slice(0, next.length)));
    model.rewind(start + logits.length);
  }
  model.rewind(start);
  return logits;
}

function bytesOf(row: Float32Array): Uint8Array<ArrayBuffer> {
  return new Uint8Array(row.buffer as ArrayBuffer, row.byteOffset, row.byteLength);
}

function copied(rows: readonly Float32Array[]): Float32Array[] {
  return rows.map((row) => row.slice());
}

/** 0 only if all bits are the same, but for the sign of a zero. @throws ModelError: a number is not finite. */
function largestDifference(found: readonly Float32Array[], expected: readonly Float32Array[]): number {
  let largest = 0;
  for (const [index, row] of found.entries()) {
    for (const [token, logit] of row.entries()) {
      const difference = Math.abs(logit - expected[index]![token]!);
      if (!Number.isFinite(difference))
        throw new ModelError("the model's logits are not finite numbers; export it again or choose another format");
      if (difference > largest) largest = difference;
    }
  }
  return largest;
}

/** Random tokens, the same each time. */
class Draws {
  readonly #numbers = new Seeded(0);

  constructor(readonly vocabulary: number) {}

  tokens(count: number): number[] {
    return Array.from({ length: count }, () => Math.floor(this.#numbers.uniform() * this.vocabulary));
  }
}
