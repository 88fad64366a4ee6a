// Several drafters for one text: in each round, the one with the largest expected speed-up.

import type { Controller, RivalController } from "../core/controller.js";
import { NO_PROPOSAL, type Drafter, type Proposal } from "../core/draft.js";
import type { Randomness } from "../core/randomness.js";

/** A drafter and the controller of its γ. */
export interface Rival {
  readonly draft: Drafter;
  readonly gamma: RivalController;
}

/**
 * A drafter and a γ controller in one; each drafter is judged by its own acceptance rate.
 *
 * Which one drafts depends only on the text so far and on earlier rounds, so the text keeps the target's
 * distribution. N-gram lookup costs nothing but often has no proposal: it drafts where it has one and
 * was right lately; elsewhere the model drafts.
 */
export class AlternatingDrafter implements Drafter, Controller {
  #proposer: RivalController | null = null; // of the drafter that proposed last

  /** @param rivals of equal expected speed-ups, the first wins. */
  constructor(readonly rivals: readonly Rival[]) {}

  get seconds(): number {
    return this.rivals.reduce((seconds, { draft }) => seconds + draft.seconds, 0);
  }

  begin(prompt: readonly number[]): void {
    for (const { draft } of this.rivals) draft.begin(prompt);
  }

  /** The largest γ of any drafter. */
  gamma(): number {
    return Math.max(...this.rivals.map(({ gamma }) => gamma.gamma()));
  }

  async propose(sequence: readonly number[], gamma: number, randomness: Randomness): Promise<Proposal> {
    this.#proposer = null;
    const bySpeedup = [...this.rivals].sort((a, b) => b.gamma.expectedSpeedup() - a.gamma.expectedSpeedup());
    for (const rival of bySpeedup) {
      const most = Math.min(gamma, rival.gamma.gamma());
      const proposal = most > 0 ? await rival.draft.propose(sequence, most, randomness) : NO_PROPOSAL;
      if (proposal.tokens.length > 0) {
        this.#proposer = rival.gamma;
        return proposal;
      }
    }
    return NO_PROPOSAL;
  }

  observe(drafted: number, evaluated: number, accepted: number, candidates: number): void {
    for (const { gamma } of this.rivals) {
      if (drafted > 0 && gamma !== this.#proposer) gamma.decay();
      else gamma.observe(drafted, evaluated, accepted, candidates);
    }
  }
}
