// Which calls compute a prompt, so that the cache of a conversation can be reused.
//
// A long call may round differently from a short one. The tokens that a model generated were computed in
// short calls, which all agree; everything else is computed by the same long calls each time.

import type { Range } from "../core/model.js";

// A longer prompt is split, which bounds the memory for attention scores.
const MAX_PREFILL_ROWS = 256;

/** A long call: its positions, start … end − 1, and whether they belong to an answer. */
export interface LongCall extends Range {
  readonly isAnswer: boolean;
}

/** How one position of the cache was computed. */
export interface CachedPosition {
  /** What its keys and values depend on besides earlier positions: the token id, and for an EAGLE head
   * also the target's token id. */
  readonly key: string;
  /** The long call that computed it; null for any short call. */
  readonly call: LongCall | null;
}

/**
 * How each of a prompt's first `count` positions is computed: the long call that it is in, or null for
 * any short call.
 *
 * @param assistantSpans positions that the model scored while it generated, in order.
 * @param shortSpans compute answers in short calls again, else in long calls of their own.
 */
export function planPrefill(count: number, assistantSpans: readonly Range[], shortSpans: boolean): (LongCall | null)[] {
  const plan = new Array<LongCall | null>(count).fill(null);
  const borders = [0, ...assistantSpans.flatMap(({ start, end }) => [start, end]), count];
  for (const [index, start] of borders.slice(0, -1).entries()) {
    const isAnswer = index % 2 === 1;
    if (isAnswer && shortSpans) continue;
    const end = Math.min(borders[index + 1]!, count);
    for (let first = start; first < end; first += MAX_PREFILL_ROWS) {
      const call = { start: first, end: Math.min(first + MAX_PREFILL_ROWS, end), isAnswer };
      plan.fill(call, first, call.end);
    }
  }
  return plan;
}

/** The number of leading positions in the cache that equal those computed from scratch. A long call that
 * would hold other tokens is not reused in part. */
export function reusableLength(cached: readonly CachedPosition[], wanted: readonly CachedPosition[]): number {
  const most = Math.min(cached.length, wanted.length);
  let count = 0;
  while (count < most && isSame(cached[count]!, wanted[count]!)) count++;
  const last = count > 0 ? wanted[count - 1]!.call : null;
  return last !== null && last.end > count ? last.start : count;
}

/** Where the call that begins at `start` ends; a short one has at most `maxShortRows` rows. */
export function callEnd(start: number, plan: readonly (LongCall | null)[], maxShortRows: number): number {
  const call = plan[start]!;
  if (call !== null) return call.end;
  let end = start;
  while (end < Math.min(plan.length, start + maxShortRows) && plan[end] === null) end++;
  return end;
}

function isSame(a: CachedPosition, b: CachedPosition): boolean {
  if (a.key !== b.key) return false;
  if (a.call === null || b.call === null) return a.call === b.call;
  return a.call.start === b.call.start && a.call.end === b.call.end && a.call.isAnswer === b.call.isAnswer;
}
