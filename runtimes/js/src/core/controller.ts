// How many tokens to draft in a round: γ.

import { shortened, UsageError } from "../errors.js";
import type { Costs, CostSource } from "./cost-model.js";

/** Chooses γ for each round. */
export interface Controller {
  /** How many tokens to draft next. */
  gamma(): number;
  /** Reports a round: how many tokens were drafted, looked at by the rule, and accepted, and how many candidates
   * were scored beside them. */
  observe(drafted: number, evaluated: number, accepted: number, candidates: number): void;
}

/** A controller of one of several drafters that alternate. */
export interface RivalController extends Controller {
  /** Expected speed-up of drafting now, over plain decoding. */
  expectedSpeedup(): number;
  /** Another drafter ran in this round. */
  decay(): void;
}

/** Always the same γ. */
export class Fixed implements RivalController {
  readonly #gamma: number;

  constructor(gamma: number) {
    this.#gamma = gamma;
  }

  gamma(): number {
    return this.#gamma;
  }

  observe(): void {}

  /** The same for every fixed γ, so that of several drafters the first is used. */
  expectedSpeedup(): number {
    return 1;
  }

  decay(): void {}
}

// Of `Adaptive`; the names of its options say what they are.
const FIRST_PAUSE = 16; // rounds before the first probe
const PROBE = 0.015; // largest share of the time that later probes may cost
const DOUBLINGS = 4; // of the pause, at most

/** The prior of an acceptance rate, and how fast it is forgotten. */
export interface Prior {
  /** Prior acceptance rate. */
  readonly guess?: number;
  /** Of the prior, in evaluated tokens. */
  readonly weight?: number;
  /** Decay per evaluated token; also towards the prior for every round in which another drafter ran. */
  readonly memory?: number;
}

/**
 * The γ with the largest expected speed-up, from the cost curve and the acceptance rate so far.
 *
 * γ = 0 switches drafting off. The acceptance rate is a running mean over evaluated tokens, and starts
 * at a prior of small weight. While drafting is off, one token is drafted now and then, at growing
 * intervals, to see whether it pays again: the first time soon, since a busy machine or bad luck may have
 * ended it, and again at once where the token was accepted and so paid for itself. Never if it could not
 * pay at acceptance 1 and the costs do not change.
 *
 * It reads no clock: where its costs do not either, the same text and pair give the same γ.
 */
export class Adaptive implements RivalController {
  protected costs!: Costs;
  protected accepted!: number;
  protected evaluated!: number;
  protected best!: number;
  protected speedup!: number;
  readonly #source: CostSource;
  readonly #prior: readonly [accepted: number, evaluated: number];
  readonly #memory: number;
  #failedProbes = 1; // since drafting paid; that a text begins without it counts as one
  #idleRounds = 0; // since the last draft

  /** @param costs asked after each round. */
  constructor(costs: CostSource, { guess = 0.7, weight = 1.5, memory = 0.96 }: Prior = {}) {
    this.#source = costs;
    this.#prior = [guess * weight, weight];
    this.#memory = memory;
    this.#update(...this.#prior);
  }

  /** Sets the acceptance counts, and the best γ and speed-up that follow from them. */
  #update(accepted: number, evaluated: number): void {
    [this.accepted, this.evaluated] = [accepted, evaluated];
    this.costs = this.#source.now();
    [this.best, this.speedup] = this.costs.best(accepted / evaluated);
  }

  gamma(): number {
    if (this.best === 0 && this.#idleRounds >= this.#pause && this.#canPay) return 1;
    return this.best;
  }

  get #canPay(): boolean {
    return this.#source.mayChange || this.costs.best(1)[0] > 0;
  }

  /** Rounds between two probes. */
  get #pause(): number {
    if (this.#failedProbes === 0) return FIRST_PAUSE;
    const pause = Math.max(FIRST_PAUSE, (this.costs.round(1) - 1) / PROBE);
    return pause * 2 ** Math.min(this.#failedProbes - 1, DOUBLINGS);
  }

  observe(drafted: number, evaluated: number, accepted: number): void {
    if (drafted === 0) {
      this.#idleRounds++;
      this.#update(this.accepted, this.evaluated);
      return;
    }
    const wasProbe = this.#idleRounds >= this.#pause;
    const decay = this.#memory ** evaluated;
    this.#update(decay * this.accepted + accepted, decay * this.evaluated + evaluated);
    if (this.best > 0) this.#failedProbes = 0;
    else if (wasProbe) {
      if (accepted > 0 && this.costs.round(1) < 2) return; // it paid for itself
      this.#failedProbes++;
    }
    this.#idleRounds = 0;
  }

  expectedSpeedup(): number {
    return this.speedup;
  }

  decay(): void {
    const [accepted, evaluated] = this.#prior;
    this.#update(
      accepted + this.#memory * (this.accepted - accepted),
      evaluated + this.#memory * (this.evaluated - evaluated),
    );
  }
}

/**
 * `Adaptive`, and token by token one more while its expected gain exceeds its cost.
 *
 * For drafters that know the probability of their own tokens. The acceptance rate decides whether to
 * draft at all, and allows at most twice the best fixed γ: a draft that is sure and wrong is soon found
 * out.
 */
export class Confident extends Adaptive {
  override gamma(): number {
    return this.best > 0 ? Math.min(2 * this.best, this.costs.longest) : super.gamma();
  }

  /**
   * Whether another drafted token brings more than its time would bring elsewhere.
   *
   * @param probability that all tokens drafted so far in this round are accepted.
   * @param rows positions of the verification without it.
   */
  shouldContinue(probability: number, rows: number): boolean {
    const acceptance = this.accepted / this.evaluated;
    const cost = this.costs.draft + this.costs.marginalCost(rows);
    return probability * acceptance > cost * Math.max(1, this.speedup);
  }

  /**
   * Whether a candidate brings more than its time; it costs no call of the draft.
   *
   * @param probability that it will be the correction.
   * @param rows positions of the verification without it.
   */
  worthCandidate(probability: number, rows: number): boolean {
    return probability > this.costs.marginalCost(rows) * Math.max(1, this.speedup);
  }
}

/**
 * The controller that a user asked for.
 *
 * @param costs of the models in use, up to the largest γ that the target verifies exactly.
 * @param adaptive the class of the controller for "auto".
 * @throws UsageError: γ is no whole number, or larger than the target verifies exactly.
 */
export function controllerOf<Auto extends Adaptive>(
  gamma: number | "auto",
  costs: CostSource,
  adaptive: new (costs: CostSource) => Auto,
): Fixed | Auto {
  if (gamma === "auto") return new adaptive(costs);
  if (!(Number.isInteger(gamma) && gamma >= 0)) {
    throw new UsageError(`gamma is ${shortened(gamma)}; give a whole number from 0, or "auto"`);
  }
  const { longest } = costs.now();
  if (gamma > longest) {
    throw new UsageError(`gamma is ${gamma}; this target was found exact for at most ${longest} drafted tokens`);
  }
  return new Fixed(gamma);
}
