// Drafts from a smaller model q, sampled one token at a time.

import type { Distribution, Processor } from "../core/distribution.js";
import type { Drafter, Proposal } from "../core/draft.js";
import type { Candidate, Model, Range } from "../core/model.js";
import type { Randomness } from "../core/randomness.js";
import { argMax, expWeights } from "../core/sampling.js";
import type { Vocabulary } from "./vocabulary-map.js";

const TOP = 3; // how many tokens are considered as candidates, the drafted one included

/** Says yes or no, given a probability and the number of positions in the verification. */
export interface Decision {
  (probability: number, rows: number): boolean;
}

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
  readonly answers?: readonly Range[] | null;
}

/** It reads a prompt when it is first asked to draft: where drafting does not pay, it never does. */
export class ModelDrafter implements Drafter {
  readonly #how: ModelDrafting;
  readonly #lastTokens: ReadonlySet<number>;
  readonly #needsProbability: boolean;
  #unreadPrompt: readonly number[] | null = null;
  #start = 0;
  #cached: number[] = []; // the text's tokens in the cache, after the prompt
  #confirmed = 0; // how many of them are known to be in the text

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
    this.#cached = [];
    this.#confirmed = 0;
  }

  async propose(text: readonly number[], gamma: number, randomness: Randomness): Promise<Proposal> {
    const { model, shouldContinue } = this.#how;
    await this.#readPrompt();
    this.#rewindToCommonPrefix(text);
    let unread = text.slice(this.#confirmed);
    const most = Math.min(gamma, model.capacity - model.length - unread.length + 1);
    const tokens: number[] = [];
    const q: Distribution[] = [];
    const candidates: Candidate[] = [];
    let probability = 1; // that all of `tokens` are accepted, as the draft sees it
    while (tokens.length < most) {
      const prediction = await this.#predict(unread);
      this.#cached.push(...unread);
      const token = randomness.categorical(prediction.q);
      tokens.push(token);
      q.push(prediction.q);
      this.#addCandidates(candidates, tokens.length, prediction, probability);
      if (this.#lastTokens.has(token)) break;
      if (this.#needsProbability) probability *= prediction.probability(token);
      if (shouldContinue?.(probability, 1 + tokens.length + candidates.length) === false) break;
      unread = [token];
    }
    return { tokens, q, candidates };
  }

  async #readPrompt(): Promise<void> {
    if (this.#unreadPrompt === null) return;
    const { model, vocabulary, answers } = this.#how;
    await model.prefill(this.#unreadPrompt.map((token) => vocabulary.toDraftId(token)), answers);
    this.#start = model.length;
    this.#unreadPrompt = null;
  }

  /**
   * Drops rejected tokens from the cache. After full acceptance the cache lacks the draft's own last
   * token. Scoring everything after the common prefix covers both cases.
   */
  #rewindToCommonPrefix(text: readonly number[]): void {
    const { model } = this.#how;
    const validLength = model.validLength - this.#start;
    const most = Math.min(this.#cached.length, text.length - 1, validLength); // the last token is scored anew
    while (this.#confirmed < most && this.#cached[this.#confirmed] === text[this.#confirmed]) this.#confirmed++;
    this.#cached.length = this.#confirmed;
    model.rewind(this.#start + this.#confirmed);
  }

  /** The draft's prediction of the token after `tokens`, in token ids of the target. */
  async #predict(tokens: readonly number[]): Promise<Prediction> {
    const { model, vocabulary, process } = this.#how;
    const rows = await model.score(tokens.map((token) => vocabulary.toDraftId(token)));
    const logits = rows[tokens.length - 1]!;
    const others = vocabulary.covers(model.vocabulary) ? vocabulary : null;
    return new Prediction(vocabulary.distribution(process, logits), logits, others);
  }

  #addCandidates(candidates: Candidate[], drafted: number, prediction: Prediction, probability: number): void {
    const { worthCandidate } = this.#how;
    if (worthCandidate === undefined) return;
    for (const [token, share] of prediction.others()) {
      if (worthCandidate(probability * share, 1 + drafted + candidates.length)) {
        candidates.push({ parent: drafted - 1, token });
      }
    }
  }
}

type Share = readonly [token: number, probability: number];

/** The draft's prediction of one token. */
class Prediction {
  #best: readonly Share[] | null = null;

  /** @param vocabulary null if the target lacks some of the draft's tokens. */
  constructor(
    readonly q: Distribution,
    readonly logits: Float32Array,
    readonly vocabulary: Vocabulary | null,
  ) {}

  /** The probability that the draft gives to a token drawn from q. */
  probability(token: number): number {
    return this.q.size > 1 ? this.q.of(token) : this.#bestTokens()[0]![1];
  }

  /** The next best tokens with their probabilities, where the best was taken. */
  others(): readonly Share[] {
    const { vocabulary } = this;
    if (this.q.size > 1 || vocabulary === null) return [];
    return this.#bestTokens().slice(1).map(([token, share]) => [vocabulary.toTargetId(token), share]);
  }

  #bestTokens(): readonly Share[] {
    return (this.#best ??= mostProbable(this.logits));
  }
}

/** The `TOP` most probable tokens (ids of the draft) at temperature 1, with their probabilities. */
function mostProbable(logits: Float32Array): Share[] {
  const weights = expWeights(logits, logits[argMax(logits)]!, 1);
  let total = 0;
  for (let i = 0; i < weights.length; i++) total += weights[i]!;
  return Array.from({ length: Math.min(TOP, weights.length) }, () => {
    const token = argMax(weights);
    const share = weights[token]! / total;
    weights[token] = -1;
    return [token, share];
  });
}
