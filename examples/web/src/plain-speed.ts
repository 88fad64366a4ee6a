// How fast plain decoding is on this device: what "×1.7" compares with. It is measured in the background,
// once a pair, and given up as soon as something is wanted.

import type { load } from "@edgespec/edgespec/web";

type Pair = Awaited<ReturnType<typeof load>>;

const PROMPT = "Hello";
const TOKENS = 10;
/** The first steps compile code. */
const SKIPPED = 3;
/** Of fewer steps the median says little. */
const FEWEST = 3;

/** Measures a pair once, unless it is told to give way. */
export class PlainSpeed {
  readonly #done = new WeakSet<Pair>();
  #running: AbortController | null = null;

  isKnown(pair: Pair): boolean {
    return this.#done.has(pair);
  }

  giveWay(): void {
    this.#running?.abort();
  }

  /** Tokens a second, one over the median step; null if it had to give way too soon. */
  async measure(pair: Pair, turn: () => Promise<void>): Promise<number | null> {
    const running = (this.#running = new AbortController());
    try {
      const steps = (await plainSteps(pair, running.signal, turn)).slice(SKIPPED).sort((a, b) => a - b);
      if (steps.length < FEWEST) return null;
      this.#done.add(pair);
      return 1 / steps[steps.length >> 1]!;
    } finally {
      this.#running = null;
    }
  }
}

/** Seconds of each plain step after the prompt, as far as it came. */
async function plainSteps(pair: Pair, signal: AbortSignal, turn: () => Promise<void>): Promise<number[]> {
  const prompt = pair.manifest.chat === null ? PROMPT : [{ role: "user" as const, content: PROMPT }];
  const stream = pair.stream(prompt, { draft: false, ignoreEos: true, maxNewTokens: TOKENS });
  const ends: number[] = [];
  for await (const { token } of stream) {
    if (token !== null) ends.push(stream.result.stats.seconds);
    await turn();
    if (signal.aborted) break;
  }
  return ends.slice(1).map((end, index) => end - ends[index]!);
}
