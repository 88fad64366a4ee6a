// Claim: whatever the draft, the shipped loop emits texts with exactly the target's distribution.
//
// Not a statistic: every random branch of src/core/decode.ts is walked in fractions. The distribution of
// the emitted text is compared with the product of the target's conditional distributions. The same
// comparison must catch mutants: known mistakes.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { Distribution } from "../src/core/distribution.js";
import type { Model } from "../src/core/model.js";
import type { RuleName } from "../src/core/verification.js";
import { exactDistribution } from "./branches.js";
import { add, Fraction, greater } from "./fraction.js";
import { fractionBuild, type Mutation } from "./fraction-build.js";
import { fractions, type NextToken, ReadingTable, TableModel } from "./tables.js";
import {
  adaptive, argMax, asDistribution, branching, END, modelDraft, PAIRS, PROMPT, SHIPPED, SOME_PAIRS,
  targetDistribution, tokensOf, type Walk, walked, WithCandidates,
} from "./walks.js"; // prettier-ignore

const RULES: readonly RuleName[] = ["token", "block"];
function forEachPair(pairs: readonly string[], claim: (p: NextToken, q: NextToken, rule: RuleName) => Promise<void>) {
  return async () => {
    for (const pair of pairs) for (const rule of RULES) await claim(...PAIRS[pair]!, rule);
  };
}

// --- the distribution ---------------------------------------------------------------------------------

test("the plain loop has the target's distribution", async () => {
  const [p] = PAIRS.close!;
  const ends = (token: number): boolean => token === END;
  const found = await exactDistribution((randomness) =>
    tokensOf(
      SHIPPED.decode.plain({
        target: new TableModel(p),
        prompt: PROMPT,
        process: asDistribution(SHIPPED),
        randomness,
        maxNewTokens: 3,
        ends,
      }),
    ),
  );
  assert.deepEqual(found, targetDistribution(p, 3, ends));
});

for (const gamma of [0, 1, 2, 3]) {
  test(
    `text has the target's distribution with γ ${gamma}`,
    forEachPair(Object.keys(PAIRS), async (p, q, rule) => {
      const fixed = () => new SHIPPED.controller.Fixed(gamma);
      assert.deepEqual(await walked(p, modelDraft(q), { rule, gamma: fixed }), targetDistribution(p));
    }),
  );
}

test(
  "text that stops early has the target's distribution",
  forEachPair(Object.keys(PAIRS), async (p, q, rule) => {
    const ends = (token: number): boolean => token === END;
    const draft = modelDraft(q, { lastTokens: [END] });
    assert.deepEqual(await walked(p, draft, { rule, ends }), targetDistribution(p, 4, ends));
  }),
);

test(
  "text has the target's distribution when γ adapts",
  forEachPair(SOME_PAIRS, async (p, q, rule) => {
    assert.deepEqual(await walked(p, modelDraft(q), { rule, gamma: adaptive }), targetDistribution(p));
  }),
);

test(
  "text has the target's distribution when two drafters alternate",
  forEachPair(SOME_PAIRS, async (p, q, rule) => {
    const draft = () =>
      new SHIPPED.alternating.AlternatingDrafter([
        { draft: new SHIPPED.ngramLookup.NgramLookup(2, 1), gamma: adaptive() },
        { draft: modelDraft(q)(), gamma: adaptive() },
      ]);
    assert.deepEqual(await walked(p, draft, { rule }), targetDistribution(p));
  }),
);

test(
  "text has the target's distribution when a draft stops where it is unsure",
  forEachPair(SOME_PAIRS, async (p, q, rule) => {
    const draft = modelDraft(q, { shouldContinue: (probability) => greater(probability, 0.4) });
    assert.deepEqual(await walked(p, draft, { rule }), targetDistribution(p));
  }),
);

test(
  "text has the target's distribution with an EAGLE head",
  forEachPair(SOME_PAIRS, async (p, q, rule) => {
    const draft = (target: Model) => modelDraft(q, { model: new ReadingTable(q, target as TableModel) })();
    assert.deepEqual(await walked(p, draft, { rule }), targetDistribution(p));
  }),
);

test(
  "text has the target's distribution when the draft takes its arg-max",
  forEachPair(Object.keys(PAIRS), async (p, q, rule) => {
    const draft = modelDraft(q, { process: argMax(SHIPPED) });
    assert.deepEqual(await walked(p, draft, { rule }), targetDistribution(p));
  }),
);

test(
  "text has the target's distribution when the draft is n-gram lookup",
  forEachPair(Object.keys(PAIRS), async (p, _, rule) => {
    const draft = () => new SHIPPED.ngramLookup.NgramLookup(2, 1);
    assert.deepEqual(await walked(p, draft, { rule }), targetDistribution(p));
  }),
);

test(
  "greedy text is the target's own",
  forEachPair(["close"], async (p, q, rule) => {
    const process = argMax(SHIPPED);
    const alone: NextToken = (context) => {
      const best = process(p(context) as unknown as Float32Array).token(0);
      return fractions(...[0, 1, 2].map((token) => Number(token === best)));
    };
    assert.deepEqual(await walked(p, modelDraft(q, { process }), { rule, process }), targetDistribution(alone));
  }),
);

// --- candidates ---------------------------------------------------------------------------------------

test(
  "text has the target's distribution with candidates",
  forEachPair(Object.keys(PAIRS), async (p, q, rule) => {
    const draft = () => new WithCandidates(modelDraft(q)());
    assert.deepEqual(await walked(p, draft, { rule, target: branching }), targetDistribution(p));
  }),
);

test(
  "text that ends with a candidate has the target's distribution",
  forEachPair(Object.keys(PAIRS), async (p, q, rule) => {
    const ends = (token: number): boolean => token === END;
    const draft = () => new WithCandidates(modelDraft(q)());
    assert.deepEqual(await walked(p, draft, { rule, ends, target: branching }), targetDistribution(p, 4, ends));
  }),
);

for (const most of [4, 5, 7]) {
  test(
    `text has the target's distribution where only ${most} positions fit into a call`,
    forEachPair(["far"], async (p, q, rule) => {
      const draft = () => new WithCandidates(modelDraft(q)());
      const target = () => branching(p, most);
      assert.deepEqual(await walked(p, draft, { rule, target }), targetDistribution(p));
    }),
  );
}

test("a round whose correction is a candidate emits one token more", async () => {
  const [p, q] = PAIRS.far!;
  const process = argMax(SHIPPED);
  const calls = [];
  for (const candidates of [false, true]) {
    const target = branching(p);
    const draft = modelDraft(q, { process })();
    await walked(p, () => (candidates ? new WithCandidates(draft) : draft), {
      process,
      target: () => target,
      length: 30,
    });
    calls.push(target.calls);
  }
  assert.ok(calls[1]! < calls[0]!);
});

// --- mutants: each is a mistake that a loop can have ----------------------------------------------------

const VERIFICATION = "core/verification.js";
const DECODE = "core/decode.js";
const MUTANTS: Readonly<Record<string, Mutation & Pick<Walk, "rule"> & { readonly candidates?: boolean }>> = {
  "a residual without max": { file: VERIFICATION, right: "Math.max(0, left[i])", wrong: "left[i]" },
  "a correction from p": { file: VERIFICATION, right: "next: residual(p.at(i), q)", wrong: "next: p.at(i)" },
  "the residual of an earlier position": {
    file: VERIFICATION,
    right: "next: residual(p.at(i), q)",
    wrong: "next: residual(p.at(0), proposal.q[0])",
  },
  "a bonus from q": {
    file: VERIFICATION,
    right: "next: p.at(drafted)",
    wrong: "next: proposal.q[drafted - 1] ?? p.at(drafted)",
  },
  "acceptance with q/p": {
    file: VERIFICATION,
    right: "p.of(token) / probability",
    wrong: "(p.of(token) > 0 ? probability / p.of(token) : 0)",
  },
  "acceptance with p alone": { file: VERIFICATION, right: "p.of(token) / probability", wrong: "p.of(token)" },
  "a block whose product may exceed 1": {
    file: VERIFICATION,
    right: "w.push(Math.min(",
    wrong: "w.push(Math.max(",
    rule: "block",
  },
  "a block that is accepted with the residual's mass": {
    file: VERIFICATION,
    right: "randomness.bernoulli(z / (z + (1 - w[i])))",
    wrong: "randomness.bernoulli(z)",
    rule: "block",
  },
  "a rewind off by one": {
    file: DECODE,
    right: "target.rewind(start + tokens.length)",
    wrong: "target.rewind(start + tokens.length - 1)",
  },
  "no rewind": { file: DECODE, right: "target.rewind(start + tokens.length)", wrong: "" },
  "the wrong row after a candidate": {
    file: DECODE,
    right: "rows.push(1 + drafted + number)",
    wrong: "rows.push(result.accepted + 1)",
    candidates: true,
  },
  "a determined token that is reported as drawn": {
    file: "drafters/model-drafter.js",
    right: "randomness.categorical(q, ahead)",
    wrong: "q.token(1)",
  },
};

for (const [index, [name, { candidates = false, rule = "token", ...mutation }]] of Object.entries(MUTANTS).entries()) {
  test(`caught: ${name}`, async () => {
    const [p, q] = PAIRS.close!;
    const modules = await fractionBuild(`mutant-${index}`, mutation);
    const model = modelDraft(q, {}, modules);
    const draft = candidates ? () => new WithCandidates(model()) : model;
    const gamma = () => new modules.controller.Fixed(2);
    const length = 3; // of few branches
    const found = await walked(p, draft, { modules, rule, gamma, length, ...(candidates && { target: branching }) });
    assert.notDeepEqual(found, targetDistribution(p, length));
  });
}

test("fractions add up exactly, and doubles would not", () => {
  const tenth: Distribution | Fraction = new Fraction(1n, 10n);
  assert.equal(String(add(add(tenth, tenth), tenth)), "3/10");
  assert.notEqual(0.1 + 0.1 + 0.1, 0.3);
});
