// Costs of rounds by the clock: what they took in this process, guesses until then.
//
// Only for text that does not depend on γ: greedy text, and sampled text with the coupled rule. As
// edgespec/costs/measured_costs.py.

import type { Controller } from "./controller.js";
import { Costs, type CostSource } from "./cost-model.js";
import { TimeCurve } from "./time-curve.js";

/** Returns seconds. */
export type Clock = () => number;

const SHORT = 256; // positions; times of calls are kept for caches of up to so many, twice as many, …
const PLAIN = 64; // rounds between two measurements of a plain step
const FIRST_PLAIN = 6; // rounds before the first
const LEAST = 1e-3; // guess of c for a drafter that says it costs nothing
const KEPT = 4; // rounds for which costs are not computed anew

/**
 * What rounds took without their drafting, by rows of the target's call and by cache length.
 *
 * They include the loop's own work. A range of lengths without measurements takes over the curve of the
 * range before it in time.
 */
export class VerificationTimes {
  rounds = 0;
  readonly #curves = new Map<number, TimeCurve>();
  #curve: TimeCurve;
  #lastPlain = FIRST_PLAIN - PLAIN;

  /** @param guess costs of rounds whose drafter runs no model. */
  constructor(guess: Costs) {
    const [first, ...others] = guess.verify;
    this.#curve = new TimeCurve([first!, ...others.map((v) => v + guess.overhead)]);
    this.#curves.set(0, this.#curve);
  }

  /** Starts a round with so many positions in the target's cache. */
  begin(length: number): void {
    this.rounds++;
    const size = 32 - Math.clz32(Math.floor(length / SHORT));
    if (!this.#curves.has(size)) {
      const guess = this.seconds();
      if (guess !== null) this.#curves.set(size, new TimeCurve(guess));
    }
    this.#curve = this.#curves.get(size) ?? this.#curve;
  }

  /** Reports the round. */
  add(rows: number, seconds: number): void {
    this.#curve.add(rows, seconds, this.rounds);
    if (rows === 1) this.#lastPlain = this.rounds;
  }

  /** [longest + 1] times of calls with 1, 2, … rows at the present length, if known. */
  seconds(): number[] | null {
    return this.#curve.seconds(this.rounds);
  }

  /** Whether a plain step should be timed again: where drafting always pays there is none. */
  get isPlainStepDue(): boolean {
    return this.rounds - this.#lastPlain >= PLAIN;
  }
}

/** What drafting took in rounds, by the number of drafted tokens. */
export class DraftingTimes {
  readonly #guess: readonly [token: number, round: number];
  readonly #curve: TimeCurve;

  /**
   * @param drafter its `seconds` are what drafting took so far.
   * @param guess costs of rounds with it.
   * @param without costs of rounds whose drafter runs no model; the overheads' difference is the draft's.
   */
  constructor(
    readonly drafter: { readonly seconds: number },
    guess: Costs,
    without: Costs,
  ) {
    this.#guess = [guess.draft, Math.max(0, guess.overhead - without.overhead)];
    const [token, first] = [Math.max(guess.draft, LEAST), this.#guess[1]];
    this.#curve = new TimeCurve(Array.from({ length: Math.max(1, guess.longest) }, (_, n) => first + token * (n + 1)));
  }

  add(tokens: number, seconds: number, round: number): void {
    this.#curve.add(tokens, seconds, round);
  }

  /** c and what a round's drafting costs in addition, in plain steps of `step` seconds. */
  costs(step: number, round: number): readonly [token: number, round: number] {
    const found = this.#curve.seconds(round);
    if (found === null) return this.#guess;
    const token = (found.at(-1)! - found[0]!) / Math.max(1, found.length - 1);
    return [token / step, Math.max(0, found[0]! - token) / step];
  }
}

/** Costs of rounds with one drafter, as far as the clock knows them. */
export class MeasuredCosts implements CostSource {
  readonly mayChange = true;
  #costs: Costs;
  #next = 0; // round in which they are computed anew

  /**
   * @param guess until the first rounds were timed.
   * @param drafting null for a drafter that runs no model.
   */
  constructor(
    readonly guess: Costs,
    readonly verification: VerificationTimes,
    readonly drafting: DraftingTimes | null,
  ) {
    this.#costs = guess;
  }

  /** The costs at the present length of the target's cache. */
  now(): Costs {
    const { rounds } = this.verification;
    if (rounds >= this.#next) {
      this.#next = rounds + KEPT;
      this.#costs = this.#computed(rounds);
    }
    return this.#costs;
  }

  #computed(round: number): Costs {
    const seconds = this.verification.seconds();
    if (seconds === null) return this.guess;
    const step = seconds[0]!;
    const [draft, overhead] = this.drafting?.costs(step, round) ?? [0, 0];
    return new Costs(
      seconds.map((value) => value / step),
      draft,
      overhead,
    );
  }
}

/**
 * A controller whose rounds are timed, from the question for γ to the report.
 *
 * What the loop's consumer does between rounds does not count. The first draft of a text is not counted
 * either, since it may include reading the prompt.
 */
export class Timed implements Controller {
  #began = 0;
  #draftedBefore = 0;
  #hasDrafted = false;

  /**
   * @param controller chooses γ, by `MeasuredCosts` with these times.
   * @param target of the text.
   * @param drafting null if no drafter of the text runs a model.
   */
  constructor(
    readonly controller: Controller,
    readonly target: { readonly length: number },
    readonly verification: VerificationTimes,
    readonly drafting: DraftingTimes | null,
    readonly clock: Clock,
  ) {}

  gamma(): number {
    this.verification.begin(this.target.length);
    this.#draftedBefore = this.#draftingSeconds;
    this.#began = this.clock();
    return this.verification.isPlainStepDue ? 0 : this.controller.gamma();
  }

  observe(drafted: number, evaluated: number, accepted: number, candidates: number): void {
    const drafting = this.#draftingSeconds - this.#draftedBefore;
    const seconds = this.clock() - this.#began - drafting;
    this.verification.add(1 + drafted + candidates, seconds);
    if (drafting > 0 && this.drafting !== null) {
      if (this.#hasDrafted) this.drafting.add(drafted, drafting, this.verification.rounds);
      this.#hasDrafted = true;
    }
    this.controller.observe(drafted, evaluated, accepted, candidates);
  }

  get #draftingSeconds(): number {
    return this.drafting?.drafter.seconds ?? 0;
  }
}
