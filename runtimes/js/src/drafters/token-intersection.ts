// Maps token ids between a target and a draft that have different tokenizers.
//
// The draft proposes only tokens that both have (token-level intersection: Timor et al. 2025,
// https://arxiv.org/abs/2502.05202, algorithm 4). It reads every other token of the target as the tokens of
// its own that spell the same text.

import { Distribution, type Processor } from "../core/distribution.js";
import type { Range } from "../core/model.js";
import type { DraftPrompt, Vocabulary } from "./vocabulary-map.js";

/** What the file `draft_vocabulary.json` says of two tokenizers. */
export interface CommonTokens {
  /** Target ids, increasing, and draft ids of the common tokens; each id occurs once. */
  readonly common: readonly [target: readonly number[], draft: readonly number[]];
  /** [target vocabulary] the draft's token ids, at least one, that spell each of the target's tokens. */
  readonly spellings: readonly (readonly number[])[];
  /** The draft's token ids before a prompt. */
  readonly begin: readonly number[];
}

/** The tokens that a target and a draft have in common. */
export class TokenIntersection implements Vocabulary {
  readonly #targets: readonly number[];
  readonly #drafts: readonly number[];
  readonly #spellings: CommonTokens["spellings"];
  readonly #begin: readonly number[];
  readonly #draftSize: number;
  readonly #targetIds: ReadonlyMap<number, number>;

  /**
   * @param draftSize number of the draft's tokens.
   * @throws RangeError: the parts do not fit each other.
   */
  constructor({ common, spellings, begin }: CommonTokens, draftSize: number) {
    [this.#targets, this.#drafts] = common;
    this.#spellings = spellings;
    this.#begin = begin;
    this.#draftSize = draftSize;
    this.#check();
    this.#targetIds = new Map(this.#drafts.map((token, index) => [token, this.#targets[index]!]));
  }

  #check(): void {
    const [targets, drafts, spellings] = [this.#targets, this.#drafts, this.#spellings];
    const isId = (size: number) => (token: number) => Number.isInteger(token) && token >= 0 && token < size;
    const increases = targets.every((token, index) => index === 0 || token > targets[index - 1]!);
    if (targets.length === 0 || drafts.length !== targets.length || !increases)
      throw new RangeError("common target ids do not increase, or draft ids are missing");
    if (!targets.every(isId(spellings.length))) throw new RangeError("common names tokens that the target lacks");
    if (new Set(drafts).size !== drafts.length) throw new RangeError("common names a token of the draft twice");
    if (![drafts, this.#begin, ...spellings].every((ids) => ids.every(isId(this.#draftSize))))
      throw new RangeError("it names tokens that the draft lacks");
    if (!spellings.every(({ length }) => length > 0)) throw new RangeError("a token of the target has no spelling");
    const spelledAs = (target: number, draft: number) =>
      spellings[target]!.length === 1 && spellings[target]![0] === draft;
    if (!targets.every((token, index) => spelledAs(token, drafts[index]!)))
      throw new RangeError("a common token is spelled with others");
  }

  toDraftIds(tokens: readonly number[]): number[] {
    return tokens.flatMap((token) => this.#spellings[token]!);
  }

  /** The target's id for a common token of the draft; -1 for another. */
  toTargetId(token: number): number {
    return this.#targetIds.get(token) ?? -1;
  }

  prompt(tokens: readonly number[], assistantSpans: readonly Range[] | null): DraftPrompt {
    const starts = [this.#begin.length];
    for (const token of tokens) starts.push(starts.at(-1)! + this.#spellings[token]!.length);
    const moved = assistantSpans?.map(({ start, end }) => ({ start: starts[start]!, end: starts[end]! })) ?? null;
    return { tokens: [...this.#begin, ...this.toDraftIds(tokens)], assistantSpans: moved };
  }

  /** q of the common tokens alone, so they share the whole probability. */
  distribution(process: Processor, logits: Float32Array): Distribution {
    const q = process(Float32Array.from(this.#drafts, (token) => logits[token]!));
    const tokens = q.tokens === null ? this.#targets : Array.from(q.tokens, (index) => this.#targets[index]!);
    return new Distribution(tokens, q.probabilities);
  }

  /** Whether every token of the draft is common, so that its best tokens are q's. */
  covers(size: number): boolean {
    return size === this.#draftSize && size === this.#targets.length;
  }
}
