// Claim: with the coupled rule a text is plain decoding's, token by token, with p's distribution.
//
// Every noise of every position is walked in fractions. Two things are asserted for each drafter: in every
// branch the loop's text is the text of `plain` with the same noise; and the distribution over all branches
// is the product of the target's conditionals. Mutants of the loop and of the rule must fail.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Drafter, Proposal } from "../src/core/draft.js";
import type { Model } from "../src/core/model.js";
import type { Randomness } from "../src/core/randomness.js";
import type { RuleName } from "../src/core/verification.js";
import { exactDistribution, NoiseTable, type Texts } from "./branches.js";
import { add, Fraction } from "./fraction.js";
import { fractionBuild, type Modules, type Mutation } from "./fraction-build.js";
import { fractions, type NextToken, ReadingTable, TableModel, varying } from "./tables.js";
import {
  adaptive, argMax, asDistribution, branching, END, isController, modelDraft, never, PAIRS, PROMPT, SHIPPED,
  targetDistribution, tokensOf, WithCandidates,
} from "./walks.js"; // prettier-ignore

const LENGTH = 3;

interface Walk {
  readonly modules?: Modules;
  readonly gamma?: number;
  readonly rule?: RuleName;
  readonly ends?: (token: number) => boolean;
}

interface Walked {
  readonly texts: Texts;
  /** Whether every text was that of plain decoding. */
  readonly same: boolean;
  readonly drafted: number;
  readonly accepted: number;
}

/** Makes a drafter for a target, from the draft's distributions. */
type MakeDraft = (q: NextToken, target: Model, modules: Modules) => Drafter;

async function walked([p, q]: readonly [NextToken, NextToken], make: MakeDraft, walk: Walk = {}): Promise<Walked> {
  const { modules = SHIPPED, gamma = 2, rule = "coupled", ends = never } = walk;
  let [same, drafted, accepted] = [true, 0, 0];
  const run = async (randomness: Randomness) => {
    const target = branching(p);
    const draft = make(q, target, modules);
    const usual = { prompt: PROMPT, process: asDistribution(modules), randomness, ends, maxNewTokens: LENGTH };
    const controller = isController(draft) ? draft : new modules.controller.Fixed(gamma);
    const text: number[] = [];
    const speculation = { ...usual, target, draft, gamma: controller, rule: modules.verification.RULES[rule] };
    for await (const round of modules.decode.speculate(speculation)) {
      text.push(...round.tokens);
      drafted += round.evaluated;
      accepted += round.accepted;
    }
    const alone = await tokensOf(modules.decode.plain({ ...usual, target: new TableModel(p) }));
    same &&= text.join() === alone.join();
    return text;
  };
  const cuts = [...cutsOf(p), ...cutsOf(q)];
  const texts = await exactDistribution(run, (script) => new NoiseTable(script, cuts));
  return { texts, same, drafted, accepted };
}

/** All cumulative probabilities of a table's distributions, below 1. */
function cutsOf(table: NextToken): Fraction[] {
  const cuts = new Map<string, Fraction>();
  for (let length = 0; length < 8; length++) {
    for (let code = 0; code < 3 ** length; code++) {
      const context = Array.from({ length }, (_, index) => Math.floor(code / 3 ** index) % 3);
      let reached = new Fraction(0n);
      for (const probability of table(context)) {
        reached = add(reached, probability);
        if (String(reached) !== "1/1") cuts.set(String(reached), reached);
      }
    }
  }
  return [...cuts.values()];
}

const model: MakeDraft = (q, _, modules) => modelDraft(q, {}, modules)();

const DRAFTERS: Readonly<Record<string, MakeDraft>> = {
  "a model": model,
  "its arg-max": (q) => modelDraft(q, { process: argMax(SHIPPED) })(),
  "an EAGLE head": (q, target) => modelDraft(q, { model: new ReadingTable(q, target as TableModel) })(),
  "a model with candidates": (q, target, modules) => new WithCandidates(model(q, target, modules)),
  "n-gram lookup": () => new SHIPPED.ngramLookup.NgramLookup(2, 1),
  "two in turns": (q) =>
    new SHIPPED.alternating.AlternatingDrafter([
      { draft: new SHIPPED.ngramLookup.NgramLookup(2, 1), gamma: adaptive() },
      { draft: modelDraft(q)(), gamma: adaptive() },
    ]),
  "one that is mistaken about q": (q, target, modules) => new Mistaken(model(q, target, modules)),
};

/** So a caller's drafter that reports wrong distributions changes the speed only. */
class Mistaken implements Drafter {
  readonly seconds = 0;

  constructor(readonly draft: Drafter) {}

  begin(prompt: readonly number[]): void {
    this.draft.begin(prompt);
  }

  async propose(text: readonly number[], gamma: number, randomness: Randomness): Promise<Proposal> {
    const proposal = await this.draft.propose(text, gamma, randomness);
    const wrong = proposal.tokens.map((token) => SHIPPED.distribution.oneHot((token + 1) % 3));
    return { ...proposal, q: wrong };
  }
}

for (const gamma of [0, 1, 3]) {
  test(`every text is plain decoding's and has the target's distribution with γ ${gamma}`, async () => {
    for (const pair of Object.values(PAIRS)) {
      const { texts, same } = await walked(pair, model, { gamma });
      assert.ok(same);
      assert.deepEqual(texts, targetDistribution(pair[0], LENGTH));
    }
  });
}

for (const [name, draft] of Object.entries(DRAFTERS)) {
  test(`the text is plain decoding's with ${name}`, async () => {
    for (const pair of [PAIRS.far!, PAIRS["zeros in the draft"]!, PAIRS.disjoint!]) {
      const { texts, same } = await walked(pair, draft);
      assert.ok(same);
      assert.deepEqual(texts, targetDistribution(pair[0], LENGTH));
    }
  });
}

test("a text that ends early is plain decoding's", async () => {
  const ends = (token: number): boolean => token === END;
  for (const draft of [model, DRAFTERS["a model with candidates"]!]) {
    const { texts, same } = await walked(PAIRS.close!, draft, { gamma: 3, ends });
    assert.ok(same);
    assert.deepEqual(texts, targetDistribution(PAIRS.close![0], LENGTH, ends));
  }
});

test("a draft equal to the target is always accepted, another one not", async () => {
  const p = varying([fractions(5, 3, 2), fractions(1, 2, 3)]);
  const equal = await walked([p, p], model);
  assert.ok(equal.accepted > 0 && equal.accepted === equal.drafted);
  const other = await walked(PAIRS.close!, model);
  assert.ok(other.accepted > 0 && other.accepted < other.drafted);
});

// --- mutants --------------------------------------------------------------------------------------------

const MUTANTS: Readonly<Record<string, Mutation>> = {
  "a choice by the noise of the round's first position": {
    file: "core/verification.js",
    right: "randomness.categorical(p.at(i), i)",
    wrong: "randomness.categorical(p.at(i), 0)",
  },
  "a last token by the noise of the round's first position": {
    file: "core/decode.js",
    right: "draws.categorical(result.next, result.accepted)",
    wrong: "draws.categorical(result.next, 0)",
  },
  "a correction from the residual": {
    file: "core/verification.js",
    right: "next: oneHot(chosen)",
    wrong: "next: residual(p.at(i), proposal.q[i])",
  },
  "a token that is accepted because it is possible": {
    file: "core/verification.js",
    right: "if (chosen !== token)",
    wrong: "if (!(p.at(i).of(token) > 0))",
  },
  "a rewind off by one": {
    file: "core/decode.js",
    right: "target.rewind(start + tokens.length)",
    wrong: "target.rewind(start + tokens.length - 1)",
  },
};

for (const [index, [name, mutation]] of Object.entries(MUTANTS).entries()) {
  test(`caught: ${name}`, async () => {
    const modules = await fractionBuild(`coupled-mutant-${index}`, mutation);
    const { texts, same } = await walked(PAIRS.far!, model, { modules });
    assert.ok(!same);
    assert.notDeepEqual(texts, targetDistribution(PAIRS.far![0], LENGTH));
  });
}

test("caught: a draft that chooses by the noise of another position is accepted less", async () => {
  const mutation = {
    file: "drafters/model-drafter.js",
    right: "randomness.categorical(q, ahead)",
    wrong: "randomness.categorical(q, ahead + 1)",
  };
  const modules = await fractionBuild("coupled-mutant-draft", mutation);
  const p = varying([fractions(5, 3, 2), fractions(1, 2, 3)]);
  const { accepted, drafted, same } = await walked([p, p], model, { modules });
  assert.ok(accepted < drafted && same);
});

for (const rule of ["token", "block"] as const) {
  test(`the ${rule} rule gives other texts`, async () => {
    const { same } = await walked(PAIRS.far!, model, { rule });
    assert.ok(!same);
  });
}
