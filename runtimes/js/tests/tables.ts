// Models that compute their distributions with a function instead of a network: they return
// distributions where a network returns logits.

import assert from "node:assert/strict";
import type { Candidate, CandidateModel, Rows } from "../src/core/model.js";
import { add, Fraction } from "./fraction.js";

/** The distribution of the next token after a context, in fractions. */
export type NextToken = (context: readonly number[]) => readonly Fraction[];

export class TableModel {
  readonly seconds = 0;
  readonly vocabulary = 3;
  readonly capacity = 64;
  calls = 0;
  protected cache: number[] = [];

  constructor(readonly distribution: NextToken) {}

  get length(): number {
    return this.cache.length;
  }

  get validLength(): number {
    return this.length;
  }

  async prefill(prompt: readonly number[]): Promise<number> {
    this.cache = prompt.slice(0, -1);
    return prompt.at(-1)!;
  }

  async score(tokens: readonly number[]): Promise<Rows> {
    this.calls++;
    assert.ok(this.length + tokens.length <= this.capacity);
    return asRows(tokens.map((token) => this.next(token)));
  }

  protected next(token: number): readonly Fraction[] {
    this.cache.push(token);
    return this.distribution(this.cache);
  }

  rewind(length: number): void {
    assert.ok(length >= 0 && length <= this.length);
    this.cache.length = length;
  }
}

/** A target that scores candidates, at most `most` positions in a call. */
export class BranchingTable extends TableModel implements CandidateModel {
  readonly scoresCandidates = true;
  #candidates: { readonly before: readonly number[]; readonly token: number }[] = [];

  constructor(
    distribution: NextToken,
    readonly most = 17,
  ) {
    super(distribution);
  }

  candidateRoom(count: number): number {
    return Math.max(0, this.most - count);
  }

  override async score(tokens: readonly number[], candidates: readonly Candidate[] = []): Promise<Rows> {
    assert.ok(candidates.length === 0 || tokens.length + candidates.length <= this.most);
    const start = this.length;
    const rows = await super.score(tokens);
    this.#candidates = candidates.map(({ parent, token }) => {
      assert.ok(parent >= 0 && parent < tokens.length - 1);
      return { before: this.cache.slice(0, start + parent + 1), token };
    });
    return [...rows, ...asRows(this.#candidates.map(({ before, token }) => this.distribution([...before, token])))];
  }

  commitCandidate(number: number): void {
    const { before, token } = this.#candidates[number]!;
    assert.deepEqual(this.cache, before);
    this.cache.push(token);
  }
}

/** An EAGLE-like draft: its distributions depend on whether the target has scored a position. */
export class ReadingTable extends TableModel {
  #settled = 0;

  constructor(
    distribution: NextToken,
    readonly target: TableModel,
  ) {
    super(distribution);
  }

  override get validLength(): number {
    return Math.min(this.#settled, this.length);
  }

  protected override next(token: number): readonly Fraction[] {
    const seen = this.length <= this.target.length;
    this.#settled = seen && this.validLength === this.length ? this.length + 1 : this.validLength;
    this.cache.push(token);
    return this.distribution([...this.cache, Number(seen)]);
  }
}

/** Rows of fractions in the place of logits. */
function asRows(rows: readonly (readonly Fraction[])[]): Rows {
  return rows as unknown as Rows;
}

export function fractions(...weights: readonly number[]): readonly Fraction[] {
  const total = weights.reduce((a, b) => a + b);
  return weights.map((weight) => new Fraction(BigInt(weight), BigInt(total)));
}

/** A distribution that depends on the context: each context picks one of `distributions`. */
export function varying(distributions: readonly (readonly Fraction[])[], stride = 1): NextToken {
  return (context) => {
    let code = 0; // of the tokens of the context
    for (const token of context) code = (5 * code + token + 1) % 1_000_000_007;
    return distributions[(stride * code + context.length) % distributions.length]!;
  };
}

export function total(values: Iterable<Fraction>): Fraction {
  return [...values].reduce((sum, value) => add(sum, value), new Fraction(0n));
}
