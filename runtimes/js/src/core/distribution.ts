// A distribution over tokens: the tokens that can occur, sorted, and their probabilities.
//
// Greedy decoding is a distribution that holds one token, so rules and loops need no greedy case.
// p is the target's distribution and q the draft's, everywhere in this package, as in Leviathan,
// Kalman and Matias (2022).

import { ModelError } from "../errors.js";

/** Probabilities of some tokens; every other token has probability 0. */
export class Distribution {
  /**
   * @param tokens [k] token ids, strictly increasing: the support. Null: 0 … k − 1.
   * @param probabilities [k] non-negative; `probabilities[i]` belongs to the i-th token. They sum to
   *   one for p and q. A residual, which is only drawn from, is not normalised.
   */
  constructor(
    readonly tokens: ArrayLike<number> | null,
    readonly probabilities: ArrayLike<number>,
  ) {}

  /** k, the size of the support. */
  get size(): number {
    return this.probabilities.length;
  }

  /** The i-th token of the support. */
  token(index: number): number {
    return this.tokens === null ? index : this.tokens[index]!;
  }

  /** The probability of one token; 0 outside the support. */
  of(token: number): number {
    const index = this.indexOf(token);
    return index < 0 ? 0 : this.probabilities[index]!;
  }

  /** The index of a token in the support, or −1. */
  indexOf(token: number): number {
    if (this.tokens === null) return token < this.size ? token : -1;
    let [first, end] = [0, this.size];
    while (first < end) {
      const middle = (first + end) >>> 1;
      if (this.tokens[middle]! < token) first = middle + 1;
      else end = middle;
    }
    return first < this.size && this.tokens[first] === token ? first : -1;
  }
}

/** One row of logits, float32 [vocabulary], to its distribution. */
export interface Processor {
  (logits: Float32Array): Distribution;
}

/** The distribution of a token that is determined, not drawn: an arg-max, a looked-up token. */
export function oneHot(token: number): Distribution {
  return new Distribution([token], [1]);
}

/** Refuses a row of logits whose largest is infinite or NaN. */
export function checkLargestLogit(logit: number): void {
  if (!Number.isFinite(logit)) {
    throw new ModelError(
      `the model returned ${logit} as its largest logit, so no token can be drawn; export it again with --verify, or use another format`,
    );
  }
}
