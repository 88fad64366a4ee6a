// The times of a pair's rounds, kept from text to text.

import { Adaptive, type Controller } from "../core/controller.js";
import type { Costs, CostSource } from "../core/cost-model.js";
import type { Drafter } from "../core/draft.js";
import { type Clock, DraftingTimes, MeasuredCosts, Timed, VerificationTimes } from "../core/measured-costs.js";
import type { Model } from "../core/model.js";
import type { DrafterSetup, Drafting } from "../drafters/registry.js";

const NOW: Clock = () => performance.now() / 1000;

/** Measures what rounds cost while texts are made, for γ "auto" where the text does not depend on γ. */
export class RoundClock {
  /** Of rounds with n-gram lookup and with the draft model, as far as they are measured. */
  readonly costs: { readonly lookup: CostSource; readonly model: CostSource };
  readonly #lookup: Costs;
  readonly #verification: VerificationTimes;
  readonly #drafting: DraftingTimes | null;

  /**
   * @param guess until rounds were timed.
   * @param draft the pair's draft model.
   */
  constructor(
    guess: { readonly lookup: Costs; readonly model: Costs },
    draft: Model | null,
    readonly clock: Clock = NOW,
  ) {
    this.#lookup = guess.lookup;
    this.#verification = new VerificationTimes(guess.lookup);
    this.#drafting = draft && new DraftingTimes(draft, guess.model, guess.lookup);
    this.costs = {
      lookup: new MeasuredCosts(guess.lookup, this.#verification, null),
      model: new MeasuredCosts(guess.model, this.#verification, this.#drafting),
    };
  }

  /** The controller of a named drafter, with its rounds timed. */
  timed(controller: Controller, target: Model): Controller {
    return new Timed(controller, target, this.#verification, this.#drafting, this.clock);
  }

  /**
   * A caller's own drafter, with the rounds of this text timed. They are not kept: a drafter that does not
   * count its seconds would make verification look slow to the others.
   *
   * @param cost of a drafted token, in steps of the target.
   */
  timedOwn(draft: Drafter, cost: number, { target }: DrafterSetup): Drafting {
    const guess = this.#lookup.withDraft(cost);
    const verification = new VerificationTimes(this.#lookup);
    const drafting = new DraftingTimes(draft, guess, this.#lookup);
    const chooser = new Adaptive(new MeasuredCosts(guess, verification, drafting));
    return { draft, gamma: new Timed(chooser, target, verification, drafting, this.clock) };
  }
}
