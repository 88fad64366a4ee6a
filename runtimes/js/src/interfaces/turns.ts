// One text after another: these interfaces are called at any time, and a pair makes one text at a time.

import { AbortedError } from "../errors.js";
import type { Chunk, Generation } from "../pair/generation.js";
import type { Pair } from "../pair/pair.js";
import type { Stream } from "../pair/stream.js";
import { unlessAborted } from "./aborting.js";

/** What the interfaces ask of a `Pair`. */
export type TextMaker = Pick<Pair, "stream" | "encode" | "capacity" | "manifest">;

const lastTexts = new WeakMap<TextMaker, Promise<void>>();

/**
 * The chunks of a text that begins when those of the pair that were asked for before have ended.
 *
 * @param start begins the text; its result is returned when it has ended.
 * @throws the signal's reason, also while it waits; whatever `start` and its stream throw.
 */
export async function* inTurn(
  pair: TextMaker,
  start: () => Stream,
  signal: AbortSignal | undefined,
): AsyncGenerator<Chunk, Generation, undefined> {
  const before = lastTexts.get(pair) ?? Promise.resolve();
  let end = (): void => {};
  lastTexts.set(pair, new Promise((resolve) => (end = resolve)));
  try {
    await unlessAborted(before, signal);
    const stream = start();
    yield* stream;
    return stream.result;
  } catch (error) {
    throw error instanceof AbortedError && signal !== undefined ? signal.reason : error;
  } finally {
    void before.then(end);
  }
}
