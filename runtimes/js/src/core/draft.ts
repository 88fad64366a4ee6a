// What the loop asks of a drafter, and what a drafter proposes.
//
// A drafter changes how fast a text comes, never the text's distribution, as long as it reports the
// distribution that each of its tokens was drawn from. (The coupled rule does not look at it.)

import type { Distribution } from "./distribution.js";
import type { Candidate } from "./model.js";
import type { Randomness } from "./randomness.js";

/** γ drafted tokens, and for each the distribution that it was drawn from. */
export interface Proposal {
  /** [γ] token ids. */
  readonly tokens: readonly number[];
  /**
   * [γ] distributions: `tokens[i]` was *sampled from* `q[i]`. It is one-hot for a token that was
   * determined (arg-max, n-gram lookup). Verifying with any other q is not exact.
   */
  readonly q: readonly Distribution[];
  /**
   * Alternatives to drafted tokens. No verification rule looks at them. If the token that replaces a
   * rejected one is a candidate, its row has been scored already.
   */
  readonly candidates: readonly Candidate[];
}

export const NO_PROPOSAL: Proposal = { tokens: [], q: [], candidates: [] };

/** A proposal cut to at most `count` tokens. */
export function firstOf(proposal: Proposal, count: number): Proposal {
  if (proposal.tokens.length <= count) return proposal;
  return {
    tokens: proposal.tokens.slice(0, count),
    q: proposal.q.slice(0, count),
    candidates: proposal.candidates,
  };
}

/** Proposes tokens. Give your own as `draft` of `Pair.generate`. */
export interface Drafter {
  /** Seconds spent drafting so far. */
  readonly seconds: number;
  /** Time of one drafted token in steps of the target, for γ "auto"; 0.3 is assumed without it. */
  readonly cost?: number;

  /** Starts a new text; `prompt` holds token ids of the target. */
  begin(prompt: readonly number[]): void;

  /**
   * Proposes at most `gamma` tokens to follow `sequence`.
   *
   * @param sequence the pending token and all tokens emitted since `begin`.
   * @param randomness every random draw must come from it; a token's with the number of tokens proposed
   *   before it, so that the coupled rule's target has the same noise.
   */
  propose(sequence: readonly number[], gamma: number, randomness: Randomness): Promise<Proposal>;
}
