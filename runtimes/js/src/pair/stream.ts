// Rounds of tokens become a stream of text, with its result and its statistics.

import type { Round } from "../core/decode.js";
import { AbortedError } from "../errors.js";
import type { Chunk, Generation, Stats } from "./generation.js";
import type { StopCondition } from "./stop-condition.js";

/** What a stream is made of; its rounds are not computed yet. */
export interface StreamParts {
  readonly rounds: AsyncGenerator<Round, void, undefined>;
  readonly stop: StopCondition;
  /** Is filled in. */
  readonly result: Generation;
  readonly maxNewTokens: number | null;
  readonly logprobs: boolean;
  readonly signal: AbortSignal | null;
  /** Seconds spent so far in the target and in the draft. */
  readonly modelSeconds: () => readonly [target: number, draft: number];
  /** Takes the models for this text, and gives them back. */
  readonly occupy: () => () => void;
}

/**
 * Iterates over the `Chunk`s of a generation; `result` grows with them and ends complete.
 *
 * The pair is occupied from the first chunk to the last token. A loop that is left before that
 * (`break`, an error) frees it; so does `close()`.
 */
export class Stream implements AsyncIterableIterator<Chunk, undefined> {
  readonly result: Generation;
  readonly #chunks: AsyncGenerator<Chunk, undefined, undefined>;

  constructor(parts: StreamParts) {
    this.result = parts.result;
    this.#chunks = chunksOf(parts);
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  next(): Promise<IteratorResult<Chunk, undefined>> {
    return this.#chunks.next();
  }

  return(): Promise<IteratorResult<Chunk, undefined>> {
    return this.#chunks.return(undefined);
  }

  /** Ends the generation, if it has not ended yet; another text may then begin. */
  async close(): Promise<void> {
    await this.return();
  }

  /** Generates to the end. */
  async finish(): Promise<Generation> {
    while (!(await this.next()).done);
    return this.result;
  }
}

async function* chunksOf(parts: StreamParts): AsyncGenerator<Chunk, undefined, undefined> {
  const { stop, result, maxNewTokens } = parts;
  checkSignal(parts.signal);
  const free = parts.occupy();
  try {
    for await (const round of counted(parts)) {
      yield* chunksOfRound(round, parts);
    }
  } finally {
    free();
  }
  const rest = stop.rest();
  result.finishReason = stop.reason ?? (result.tokenIds.length === maxNewTokens ? "max_tokens" : "capacity");
  if (rest !== "") {
    result.text += rest;
    yield { token: null, text: rest, drafted: false, logprob: null };
  }
  return undefined;
}

function* chunksOfRound(round: Round, { stop, result, logprobs }: StreamParts): Generator<Chunk> {
  for (const [index, token] of round.tokens.entries()) {
    const text = stop.pieces[result.tokenIds.length]!;
    const logprob = logprobs ? logProbability(round.logits[index]!, token) : null;
    result.tokenIds.push(token);
    result.text += text;
    if (logprob !== null) result.logprobs.push(logprob);
    yield { token, text, drafted: index < round.accepted + round.committed, logprob };
  }
}

/** Passes rounds on and adds each to the statistics; the consumer's own time is not counted. */
async function* counted({
  rounds,
  result: { stats },
  modelSeconds,
  signal,
}: StreamParts): AsyncGenerator<Round, void, undefined> {
  let [target, draft] = modelSeconds();
  try {
    for (;;) {
      const began = performance.now();
      const { value: round, done } = await rounds.next();
      if (done) return;
      count(stats, round, (performance.now() - began) / 1000);
      const now = modelSeconds();
      stats.targetSeconds += now[0] - target;
      stats.draftSeconds += now[1] - draft;
      [target, draft] = now;
      checkSignal(signal);
      yield round;
      checkSignal(signal);
    }
  } finally {
    await rounds.return();
  }
}

function count(stats: Stats, round: Round, seconds: number): void {
  stats.seconds += seconds;
  stats.tokens += round.tokens.length;
  stats.targetCalls++;
  stats.drafted += round.drafted;
  stats.evaluated += round.evaluated;
  stats.accepted += round.accepted;
  if (stats.firstTokens === 0) [stats.firstTokens, stats.firstTokenSeconds] = [stats.tokens, stats.seconds];
}

function checkSignal(signal: AbortSignal | null): void {
  if (signal?.aborted) throw new AbortedError(signal);
}

/** log p(token): log-softmax of the target's logits, float32 [vocabulary]. */
function logProbability(logits: Float32Array, token: number): number {
  const highest = logits.reduce((a, b) => Math.max(a, b));
  const total = logits.reduce((sum, logit) => sum + Math.exp(logit - highest), 0);
  return logits[token]! - highest - Math.log(total);
}
