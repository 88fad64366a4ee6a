// Drafts from the text itself: what followed the same n-gram earlier ("prompt lookup").

import { oneHot } from "../core/distribution.js";
import { NO_PROPOSAL, type Drafter, type Proposal } from "../core/draft.js";

/**
 * Proposes what followed the latest n-gram earlier, in the prompt or in the text so far. Its tokens are
 * determined, not drawn: their q is one-hot.
 */
export class NgramLookup implements Drafter {
  readonly seconds = 0;
  readonly cost = 0;
  readonly #sizes: readonly number[];
  #history: number[] = [];
  #promptLength = 0;
  #follower = new Map<string, number>(); // n-gram to the index after its latest use

  /** @param longest, shortest: lengths of the n-grams that are looked up, longest first. */
  constructor(longest = 3, shortest = 2) {
    this.#sizes = Array.from({ length: longest - shortest + 1 }, (_, index) => longest - index);
  }

  begin(prompt: readonly number[]): void {
    this.#history = [];
    this.#follower = new Map();
    this.#extend(prompt);
    this.#promptLength = this.#history.length;
  }

  async propose(sequence: readonly number[], gamma: number): Promise<Proposal> {
    // sequence[0] is the prompt's last token, or a start token that belongs to no text.
    this.#extend(sequence.slice(1 + this.#history.length - this.#promptLength));
    for (const size of this.#sizes) {
      const start = this.#follower.get(this.#latest(size));
      if (start !== undefined) {
        const tokens = this.#history.slice(start, start + gamma);
        return { tokens, q: tokens.map(oneHot), candidates: [] };
      }
    }
    return NO_PROPOSAL;
  }

  #latest(size: number): string {
    return this.#history.slice(-size).join();
  }

  #extend(tokens: readonly number[]): void {
    for (const token of tokens) {
      const end = this.#history.length;
      for (const size of this.#sizes) if (end >= size) this.#follower.set(this.#latest(size), end);
      this.#history.push(token);
    }
  }
}
