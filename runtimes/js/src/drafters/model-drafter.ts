// Drafts from a smaller model q, sampled one token at a time.

import type { Distribution, Processor } from "../core/distribution.js";
import type { Drafter, Proposal } from "../core/draft.js";
import type { Candidate, Model, Range } from "../core/model.js";
import { Coupled, type Randomness } from "../core/randomness.js";
import { argMax, expWeights } from "../core/sampling.js";
import type { Vocabulary } from "./vocabulary-map.js";

const TOP = 3; // how many tokens are considered as candidates, the drafted one included

/** Says yes or no, given a probability and the number of positions in the verification. */
export interface Decision {
  (probability: number, rows: number): boolean;
}

/** A token with a guess of the probability that the target takes it. */
type Guess = readonly [token: number, probability: number];

/** What a model drafts by. */
export interface ModelDrafting {
  readonly model: Model;
  /** Turns the draft's logits into q, by the same options as the target's into p. */
  readonly process: Processor;
  readonly vocabulary: Vocabulary;
  /** Token ids after which no token is drafted (end of text). */
  readonly lastTokens?: readonly number[];
  /**
   * Given the probability that all tokens drafted so far in this round are accepted, says whether to
   * draft one more. It does not see the token that comes next, so stopping does not change the
   * distribution of the text. Without it: γ tokens.
   */
  readonly shouldContinue?: Decision | undefined;
  /**
   * Given the probability that a candidate (an alternative to a drafted token) will be the correction,
   * says whether to propose it. Without it: no candidates.
   */
  readonly worthCandidate?: Decision | undefined;
  /** A conversation's earlier answers, as in `Model.prefill`. */
  readonly assistantSpans?: readonly Range[] | null;
}

/** It reads a prompt when it is first asked to draft: where drafting does not pay, it never does. */
export class ModelDrafter implements Drafter {
  readonly #how: ModelDrafting;
  readonly #lastTokens: ReadonlySet<number>;
  readonly #needsProbability: boolean;
  #unreadPrompt: readonly number[] | null = null;
  // All token ids from here on are the draft's, and after the prompt.
  #start = 0; // number of the prompt's positions in the cache
  #sequence: number[] = [];
  #read = 0; // how many of the target's tokens are in `#sequence`
  #cached: number[] = [];
  #confirmed = 0; // how many of `#cached` are known to be in the text

  constructor(how: ModelDrafting) {
    this.#how = how;
    this.#lastTokens = new Set(how.lastTokens);
    this.#needsProbability = how.shouldContinue !== undefined || how.worthCandidate !== undefined;
  }

  get seconds(): number {
    return this.#how.model.seconds;
  }

  begin(prompt: readonly number[]): void {
    this.#unreadPrompt = prompt;
    this.#sequence = [];
    this.#read = 0;
    this.#cached = [];
    this.#confirmed = 0;
  }

  async propose(sequence: readonly number[], gamma: number, randomness: Randomness): Promise<Proposal> {
    const { model, vocabulary, shouldContinue } = this.#how;
    await this.#readPrompt();
    this.#sequence.push(...vocabulary.toDraftIds(sequence.slice(this.#read)));
    this.#read = sequence.length;
    this.#rewindToCommonPrefix();
    let unread = this.#sequence.slice(this.#confirmed);
    const most = Math.min(gamma, model.capacity - model.length - unread.length + 1);
    const tokens: number[] = [];
    const q: Distribution[] = [];
    const candidates: Candidate[] = [];
    let probability = 1; // that all of `tokens` are accepted, as the draft sees it
    while (tokens.length < most) {
      const prediction = await this.#predict(unread);
      this.#cached.push(...unread);
      const [[token, chosen], ...others] = this.#guesses(prediction, randomness, tokens.length);
      tokens.push(token);
      q.push(prediction.q);
      this.#addCandidates(candidates, tokens.length, others, probability);
      if (this.#lastTokens.has(token)) break;
      probability *= chosen;
      if (shouldContinue?.(probability, 1 + tokens.length + candidates.length) === false) break;
      unread = vocabulary.toDraftIds([token]);
    }
    return { tokens, q, candidates };
  }

  async #readPrompt(): Promise<void> {
    if (this.#unreadPrompt === null) return;
    const { model, vocabulary } = this.#how;
    const { tokens, assistantSpans } = vocabulary.prompt(this.#unreadPrompt, this.#how.assistantSpans ?? null);
    await model.prefill(tokens, assistantSpans);
    this.#start = model.length;
    this.#unreadPrompt = null;
  }

  /**
   * Drops rejected tokens from the cache. After full acceptance the cache lacks the draft's own last
   * token. Scoring everything after the common prefix covers both cases.
   */
  #rewindToCommonPrefix(): void {
    const { model } = this.#how;
    const validLength = model.validLength - this.#start;
    const most = Math.min(this.#cached.length, this.#sequence.length - 1, validLength); // the last token is scored anew
    while (this.#confirmed < most && this.#cached[this.#confirmed] === this.#sequence[this.#confirmed])
      this.#confirmed++;
    this.#cached.length = this.#confirmed;
    model.rewind(this.#start + this.#confirmed);
  }

  /** The draft's prediction of the token after `tokens`, its own; in token ids of the target. */
  async #predict(tokens: readonly number[]): Promise<Prediction> {
    const { model, vocabulary, process } = this.#how;
    const rows = await model.score(tokens);
    const logits = rows[tokens.length - 1]!;
    const q = vocabulary.distribution(process, logits);
    const best = (): readonly [Guess, ...Guess[]] => {
      const [[, probability], ...others] = mostProbable(logits);
      const known = vocabulary.covers(model.vocabulary) ? others : [];
      return [
        [q.token(0), probability],
        ...known.map(([token, share]): Guess => [vocabulary.toTargetId(token), share]),
      ];
    };
    return { q, best };
  }

  /** The drafted token, drawn from q, then alternatives to it, the most probable first. */
  #guesses({ q, best }: Prediction, randomness: Randomness, ahead: number): readonly [Guess, ...Guess[]] {
    if (!this.#needsProbability) return [[randomness.categorical(q, ahead), 1]];
    if (q.size === 1) return best();
    if (randomness instanceof Coupled) return randomness.ranked(q, ahead).slice(0, TOP) as [Guess, ...Guess[]];
    const token = randomness.categorical(q, ahead);
    return [[token, q.of(token)]];
  }

  #addCandidates(candidates: Candidate[], drafted: number, others: readonly Guess[], probability: number): void {
    const { worthCandidate } = this.#how;
    if (worthCandidate === undefined) return;
    for (const [token, chosenInstead] of others) {
      if (!worthCandidate(probability * chosenInstead, 1 + drafted + candidates.length)) break; // nor the rest
      candidates.push({ parent: drafted - 1, token });
    }
  }
}

/** The draft's prediction of one token. */
interface Prediction {
  readonly q: Distribution;
  /** Where q leaves one token: that token and the next best ones, with the draft's probabilities at
   * temperature 1. */
  readonly best: () => readonly [Guess, ...Guess[]];
}

/** The `TOP` most probable tokens (ids of the draft) at temperature 1, with their probabilities. */
function mostProbable(logits: Float32Array): readonly [Guess, ...Guess[]] {
  const weights = expWeights(logits, logits[argMax(logits)]!, 1);
  let total = 0;
  for (let i = 0; i < weights.length; i++) total += weights[i]!;
  return Array.from({ length: Math.min(TOP, weights.length) }, (): Guess => {
    const token = argMax(weights);
    const share = weights[token]! / total;
    weights[token] = -1;
    return [token, share];
  }) as [Guess, ...Guess[]];
}
