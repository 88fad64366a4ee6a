// What the exact tests walk: pairs of tables, drafters of them, and the loop over both.

import type { Controller } from "../src/core/controller.js";
import type { Processor } from "../src/core/distribution.js";
import type { Drafter, Proposal } from "../src/core/draft.js";
import type { Round } from "../src/core/decode.js";
import type { Model } from "../src/core/model.js";
import type { Randomness } from "../src/core/randomness.js";
import type { RuleName } from "../src/core/verification.js";
import type { ModelDrafting } from "../src/drafters/model-drafter.js";
import { assertSumsToOne, exactDistribution, printed, type Texts } from "./branches.js";
import { Fraction, greater, multiply } from "./fraction.js";
import { fractionBuild, type Modules } from "./fraction-build.js";
import { BranchingTable, fractions, type NextToken, TableModel, varying } from "./tables.js";

export const PROMPT = [0];
export const END = 2;
export const SHIPPED = await fractionBuild("shipped");

// [distributions of the target, distributions of the draft]: each context picks one of each.
export const PAIRS: Readonly<Record<string, readonly [NextToken, NextToken]>> = {
  close: [
    varying([fractions(5, 3, 2), fractions(1, 1, 1), fractions(2, 7, 1)]),
    varying([fractions(4, 3, 3), fractions(1, 2, 1)], 2),
  ],
  far: [
    varying([fractions(8, 1, 1), fractions(1, 1, 8)]),
    varying([fractions(1, 8, 1), fractions(1, 7, 2), fractions(3, 3, 4)], 2),
  ],
  equal: [varying([fractions(5, 3, 2), fractions(1, 2, 3)]), varying([fractions(5, 3, 2), fractions(1, 2, 3)])],
  "zeros in the target": [
    varying([fractions(1, 1, 0), fractions(0, 3, 1), fractions(1, 0, 0)]),
    varying([fractions(1, 1, 1), fractions(2, 1, 1)], 2),
  ],
  "zeros in the draft": [
    varying([fractions(1, 2, 3), fractions(2, 1, 1)]),
    varying([fractions(0, 1, 1), fractions(1, 0, 0), fractions(1, 1, 0)], 2),
  ],
  disjoint: [varying([fractions(1, 1, 0), fractions(0, 1, 1)]), varying([fractions(0, 0, 1), fractions(1, 0, 0)], 2)],
  "one-hot": [varying([fractions(0, 1, 0), fractions(1, 0, 0)]), varying([fractions(0, 1, 0), fractions(0, 0, 1)], 2)],
};
export const SOME_PAIRS = ["close", "far", "disjoint"];

/** P(text) = Π p(x_t | x_<t), for texts of at most `length` tokens cut after an end token. */
export function targetDistribution(p: NextToken, length = 4, ends = never): Texts {
  let texts = new Map<string, { text: readonly number[]; probability: Fraction }>([
    ["", { text: [], probability: new Fraction(1n) }],
  ]);
  for (let step = 0; step < length; step++) {
    const longer: typeof texts = new Map();
    for (const { text, probability } of texts.values()) {
      if (text.length > 0 && ends(text.at(-1)!)) longer.set(text.join(), { text, probability });
      else {
        for (const [token, conditional] of p([...PROMPT, ...text]).entries()) {
          const next = [...text, token];
          if (greater(conditional, 0))
            longer.set(next.join(), { text: next, probability: multiply(probability, conditional) });
        }
      }
    }
    texts = longer;
  }
  const probabilities = new Map([...texts].map(([text, { probability }]) => [text, probability]));
  assertSumsToOne(probabilities);
  return printed(probabilities);
}

export function never(_token: number): boolean {
  return false;
}

export function asDistribution(modules: Modules): Processor {
  return (row) => new modules.distribution.Distribution(null, row);
}

export function argMax(modules: Modules): Processor {
  return (row) =>
    modules.distribution.oneHot([...row].reduce((best, value, index) => (greater(value, row[best]) ? index : best), 0));
}

/** How the loop is run; what is not said is usual. */
export interface Walk {
  readonly modules?: Modules;
  readonly target?: (p: NextToken) => Model;
  readonly draft?: (target: Model) => Drafter;
  readonly gamma?: () => Controller;
  readonly rule?: RuleName;
  readonly process?: Processor;
  readonly ends?: (token: number) => boolean;
  readonly length?: number;
}

/** A drafter of a model that is a table. */
export function modelDraft(q: NextToken, options: Partial<ModelDrafting> = {}, modules = SHIPPED): () => Drafter {
  return () =>
    new modules.modelDrafter.ModelDrafter({
      model: new TableModel(q),
      process: asDistribution(modules),
      vocabulary: new modules.vocabulary.SharedTokens(3),
      ...options,
    });
}

export async function walked(p: NextToken, draft: (target: Model) => Drafter, walk: Walk = {}): Promise<Texts> {
  const { modules = SHIPPED, rule = "token", ends = never, length = 4 } = walk;
  return exactDistribution(async (randomness) => {
    const target = walk.target?.(p) ?? new TableModel(p);
    const drafter = draft(target);
    const gamma = walk.gamma?.() ?? (isController(drafter) ? drafter : new modules.controller.Fixed(3));
    const rounds = modules.decode.speculate({
      target,
      draft: drafter,
      prompt: PROMPT,
      process: walk.process ?? asDistribution(modules),
      rule: modules.verification.RULES[rule],
      gamma,
      randomness,
      maxNewTokens: length,
      ends,
    });
    return tokensOf(rounds);
  });
}

export function isController(drafter: object): drafter is Controller {
  return "observe" in drafter;
}

export async function tokensOf(rounds: AsyncIterable<Round>): Promise<number[]> {
  const tokens: number[] = [];
  for await (const round of rounds) tokens.push(...round.tokens);
  return tokens;
}

export function adaptive(): InstanceType<Modules["controller"]["Adaptive"]> {
  const costs = new SHIPPED.costs.Costs([1, 1.1, 1.2, 1.3], 0.2);
  return new SHIPPED.controller.Adaptive(costs, { guess: 0.5, memory: 0.5 });
}

/** Proposes all other tokens as candidates for each of a drafter's. */
export class WithCandidates implements Drafter {
  readonly seconds = 0;

  constructor(readonly draft: Drafter) {}

  begin(prompt: readonly number[]): void {
    this.draft.begin(prompt);
  }

  async propose(text: readonly number[], gamma: number, randomness: Randomness): Promise<Proposal> {
    const proposal = await this.draft.propose(text, gamma, randomness);
    const others = (drafted: number) => [0, 1, 2].filter((token) => token !== drafted);
    const candidates = proposal.tokens.flatMap((drafted, parent) =>
      others(drafted).map((token) => ({ parent, token })),
    );
    return { ...proposal, candidates };
  }
}

export function branching(p: NextToken, most?: number): BranchingTable {
  return new BranchingTable(p, most);
}
