// Walks every random branch of a computation, with exact probabilities.

import assert from "node:assert/strict";
import type { Distribution } from "../src/core/distribution.js";
import type { Randomness } from "../src/core/randomness.js";
import { add, divide, Fraction, FractionMath, greater, less, multiply, subtract } from "./fraction.js";
import { total } from "./tables.js";

type Outcome<T> = readonly [outcome: T, probability: Fraction];

/** A `Randomness` whose draws are answered by a script, then by the first possible outcome. */
export class Scripted implements Randomness {
  readonly taken: { readonly branch: number; readonly branches: number }[] = [];
  probability = new Fraction(1n);

  constructor(readonly script: readonly number[]) {}

  at(_emitted: number): this {
    return this;
  }

  bernoulli(given: unknown): boolean {
    const probability = Fraction.of(FractionMath.min(FractionMath.max(given, 0), 1));
    return this.branch([
      [true, probability],
      [false, subtract(1, probability)],
    ]);
  }

  categorical(distribution: Distribution, _ahead: number): number {
    const weights = Array.from(distribution.probabilities, (weight) => Fraction.of(weight));
    const sum = total(weights);
    return this.branch(weights.map((weight, index) => [distribution.token(index), divide(weight, sum)]));
  }

  protected branch<T>(outcomes: readonly Outcome<T>[]): T {
    const possible = outcomes.filter(([, probability]) => greater(probability, 0));
    const branch = this.script[this.taken.length] ?? 0;
    this.taken.push({ branch, branches: possible.length });
    const [outcome, probability] = possible[branch]!;
    this.probability = multiply(this.probability, probability);
    return outcome;
  }

  /** The script of the next way that the draws can turn out; null after the last. */
  next(): number[] | null {
    const taken = [...this.taken];
    for (let last = taken.pop(); last !== undefined; last = taken.pop()) {
      if (last.branch + 1 < last.branches) return [...taken.map(({ branch }) => branch), last.branch + 1];
    }
    return null;
  }
}

/**
 * A `Randomness` with one draw for each position, shared by all who ask for its token.
 *
 * The draw is a number in [0, 1), and a token is chosen where the cumulative probability exceeds it: with
 * exactly its probability, and often the same one for similar distributions. The number is one of a few
 * intervals, since nothing else matters.
 */
export class NoiseTable extends Scripted {
  readonly #intervals: readonly Outcome<Fraction>[];
  readonly #numbers = new Map<number, Fraction>();
  #emitted = 0;

  /** @param cuts all cumulative probabilities of the distributions that can be asked for. */
  constructor(script: readonly number[], cuts: readonly Fraction[]) {
    super(script);
    const bounds = [new Fraction(0n), ...cuts].sort((a, b) => (less(a, b) ? -1 : Number(greater(a, b))));
    this.#intervals = bounds.map((low, index) => [low, subtract(bounds[index + 1] ?? 1, low)]);
  }

  override at(emitted: number): this {
    this.#emitted = emitted;
    return this;
  }

  override categorical(distribution: Distribution, ahead: number): number {
    const position = this.#emitted + ahead;
    if (!this.#numbers.has(position)) this.#numbers.set(position, this.branch(this.#intervals));
    const weights = Array.from(distribution.probabilities, (weight) => Fraction.of(weight));
    const point = multiply(this.#numbers.get(position), total(weights));
    let reached = new Fraction(0n);
    const index = weights.findIndex((weight) => greater((reached = add(reached, weight)), point));
    assert.ok(index >= 0, "nothing to draw from");
    return distribution.token(index);
  }
}

/** Texts, their tokens joined by commas, to their probabilities. */
export type Texts = ReadonlyMap<string, string>;

/** The distribution of `run`'s result: it is run once for every way its draws can turn out. */
export async function exactDistribution(
  run: (randomness: Randomness) => Promise<readonly number[]>,
  make: (script: readonly number[]) => Scripted = (script) => new Scripted(script),
): Promise<Texts> {
  const found = new Map<string, Fraction>();
  let script: number[] | null = [];
  while (script !== null) {
    const randomness = make(script);
    const text = (await run(randomness)).join();
    found.set(text, add(found.get(text) ?? new Fraction(0n), randomness.probability));
    script = randomness.next();
  }
  return printed(found);
}

/** Sorted, so that equal distributions are deeply equal. */
export function printed(texts: ReadonlyMap<string, Fraction>): Texts {
  return new Map([...texts].sort(([a], [b]) => (a < b ? -1 : 1)).map(([text, share]) => [text, String(share)]));
}

export function assertSumsToOne(texts: ReadonlyMap<string, Fraction>): void {
  assert.equal(String(total(texts.values())), "1/1");
}
