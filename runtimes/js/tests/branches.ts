// Walks every random branch of a computation, with exact probabilities.

import assert from "node:assert/strict";
import type { Distribution } from "../src/core/distribution.js";
import type { Randomness } from "../src/core/randomness.js";
import { add, divide, Fraction, FractionMath, greater, multiply, subtract } from "./fraction.js";
import { total } from "./tables.js";

type Outcome<T> = readonly [outcome: T, probability: Fraction];

/** A `Randomness` whose draws are answered by a script, then by the first possible outcome. */
class Scripted implements Randomness {
  readonly taken: { readonly branch: number; readonly branches: number }[] = [];
  probability = new Fraction(1n);

  constructor(readonly script: readonly number[]) {}

  at(): this {
    return this;
  }

  bernoulli(given: unknown): boolean {
    const probability = Fraction.of(FractionMath.min(FractionMath.max(given, 0), 1));
    return this.#branch([[true, probability], [false, subtract(1, probability)]]);
  }

  categorical(distribution: Distribution): number {
    const weights = Array.from(distribution.probabilities, (weight) => Fraction.of(weight));
    const sum = total(weights);
    return this.#branch(weights.map((weight, index) => [distribution.token(index), divide(weight, sum)]));
  }

  #branch<T>(outcomes: readonly Outcome<T>[]): T {
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

/** Texts, their tokens joined by commas, to their probabilities. */
export type Texts = ReadonlyMap<string, string>;

/** The distribution of `run`'s result: it is run once for every way its draws can turn out. */
export async function exactDistribution(run: (randomness: Randomness) => Promise<readonly number[]>): Promise<Texts> {
  const found = new Map<string, Fraction>();
  let script: number[] | null = [];
  while (script !== null) {
    const randomness = new Scripted(script);
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
