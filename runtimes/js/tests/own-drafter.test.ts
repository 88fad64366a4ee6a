// Claim: a caller's drafter changes no text; one that breaks the protocol is one sentence.

import assert from "node:assert/strict";
import { test } from "node:test";
import { Distribution, oneHot } from "../src/core/distribution.js";
import type { Drafter, Proposal } from "../src/core/draft.js";
import type { Randomness } from "../src/core/randomness.js";
import { DrafterError, EdgespecError, UsageError } from "../src/errors.js";
import type { GenerationOptions } from "../src/pair/options.js";
import { scriptedPair } from "./scripted-pair.js";

const SIZE = 256;
const SAMPLINGS: Record<string, GenerationOptions> = {
  greedy: {},
  coupled: { temperature: 1, seed: 3 },
  "token rule": { temperature: 1, seed: 3, rule: "token" },
};

type Propose = (text: number[], gamma: number, randomness: Randomness) => unknown;

class Own implements Drafter {
  readonly seconds: number = 0;

  constructor(readonly proposes: Propose) {}

  begin(_prompt: readonly number[]): void {}

  async propose(text: readonly number[], gamma: number, randomness: Randomness): Promise<Proposal> {
    return this.proposes(text as number[], gamma, randomness) as Proposal;
  }
}

const one = (tokens: unknown, q: unknown, candidates: unknown = []): Propose => {
  return () => ({ tokens, q, candidates });
};
const halves = (tokens: unknown, probabilities: unknown = [0.5, 0.5]) => [
  new Distribution(tokens as number[], probabilities as number[]),
];

const BROKEN: Record<string, [Propose, RegExp]> = {
  nothing: [() => undefined, /proposes undefined; return lists/],
  null: [() => null, /proposes null; return lists/],
  "a list": [() => [1, 2], /proposes \[1,2\]; return lists/],
  "a text": [one("ab", halves([1, 2])), /return lists of tokens/],
  "no q": [() => ({ tokens: [7], candidates: [] }), /return lists of tokens/],
  "too few q": [one([7], []), /proposes 1 tokens with 0 distributions; give one q/],
  "too many q": [one([7], [oneHot(7), oneHot(7)]), /1 tokens with 2 distributions/],
  "a token beyond": [one([SIZE], [oneHot(SIZE)]), /the token 256; give ids from 0 to 255/],
  "a negative token": [one([-1], [oneHot(-1)]), /the token -1; give ids/],
  "a fraction": [one([1.5], [oneHot(1)]), /the token 1.5; give ids/],
  NaN: [one([NaN], [oneHot(1)]), /the token NaN; give ids/],
  "a text as a token": [one(["a"], [oneHot(1)]), /the token "a"; give ids/],
  "a flag": [one([true], [oneHot(1)]), /the token true; give ids/],
  "q of another type": [one([7], [{ tokens: [7], probabilities: [1] }]), /as a q; give a Distribution/],
  "q without tokens": [one([7], halves([], [])), /a q of 0 tokens and 0 probabilities/],
  "q of two lengths": [one([7], halves([7])), /a q of 1 tokens and 2 probabilities/],
  "q without lists": [one([7], halves(7, 1)), /a q without lists/],
  "q that does not increase": [one([7], halves([8, 7])), /q of wrong tokens; give increasing/],
  "q with a token twice": [one([7], halves([7, 7])), /q of wrong tokens/],
  "q beyond": [one([7], halves([7, SIZE])), /q of wrong tokens/],
  "q of a vocabulary too long": [one([7], halves(null, new Float32Array(SIZE + 1))), /q of wrong tokens/],
  "q of NaN": [one([7], halves([7, 8], [NaN, 1])), /whose sum is NaN/],
  "q of infinity": [one([7], halves([7, 8], [Infinity, 1])), /whose sum is Infinity/],
  "negative q": [one([7], halves([7, 8], [1.5, -0.5])), /least probability is -0.5/],
  "q above one": [one([7], halves([7, 8], [1, 1])), /whose sum is 2/],
  "q of texts": [one([7], halves([7], ["x"])), /whose sum is NaN/],
  "candidates that are none": [one([7], [oneHot(7)], 3), /return lists of tokens, q and candidates/],
  "a candidate that is none": [one([7], [oneHot(7)], [null]), /the candidate null; give the index/],
  "a candidate beyond": [one([7], [oneHot(7)], [{ parent: 0, token: 999 }]), /the token 999/],
  "a candidate nowhere": [one([7], [oneHot(7)], [{ parent: "x", token: 7 }]), /the candidate/],
  "an exception": [thrower(new RangeError("bad\nluck")), /failed \(RangeError: bad luck\); mend it/],
  "a text that is thrown": [thrower("lost"), /failed \(lost\)/],
  "moves the randomness": [(_t, _g, draws) => draws.at(3), /draw from what propose is given/],
};

function thrower(error: unknown): Propose {
  return () => {
    throw error;
  };
}

for (const [how, sampling] of Object.entries(SAMPLINGS)) {
  test(`what breaks the protocol is one sentence: ${how}`, async () => {
    const { pair } = scriptedPair(() => "an answer of some length");
    for (const [name, [propose, reason]] of Object.entries(BROKEN)) {
      await assert.rejects(pair.generate("hi", { draft: new Own(propose), gamma: 2, ...sampling }), (error: Error) => {
        assert.ok(error instanceof EdgespecError, name);
        assert.match(error.message, reason, name);
        assert.doesNotMatch(error.message, /\n|\[object/, name);
        assert.ok(error.message.length < 400);
        return true;
      });
      assert.equal((await pair.generate("hi", { draft: false })).text, "an answer of some length"); // it is free again
    }
  });
}

test("a drafter without its methods is one sentence", async () => {
  const { pair } = scriptedPair(() => "an answer");
  class NoBegin {
    readonly seconds = 0;
    async propose(): Promise<Proposal> {
      return { tokens: [], q: [], candidates: [] };
    }
  }
  class FailsToBegin extends Own {
    override begin(): void {
      throw new Error("no file");
    }
  }
  class OddSeconds extends Own {
    override readonly seconds = "long" as unknown as number;
  }
  const cases: [unknown, new (...given: never[]) => Error, RegExp][] = [
    [new NoBegin(), UsageError, /the drafter NoBegin has no method begin; give it one/],
    [new OddSeconds(one([], [])), DrafterError, /has the seconds "long"; give a number from 0/],
    [new FailsToBegin(one([], [])), DrafterError, /the drafter FailsToBegin failed \(Error: no file\)/],
    [Object.defineProperty(new Own(one([], [])), "seconds", { get: () => NaN }), DrafterError, /the seconds NaN/],
    [
      Object.defineProperty(new Own(one([], [])), "seconds", { get: () => thrower("no clock")([], 0, null!) }),
      DrafterError,
      /no clock/,
    ],
    [{ ...new Own(one([], [])), propose: 3, begin: 3 }, UsageError, /the drafter Object has no method begin/],
  ];
  for (const [draft, kind, reason] of cases) {
    const made = async () => pair.generate("hi", { draft: draft as Drafter, gamma: 2 });
    await assert.rejects(made, (error: Error) => {
      assert.ok(error instanceof kind, error.message);
      assert.match(error.message, reason);
      return true;
    });
  }
});

const HARMLESS: Record<string, Propose> = {
  "rewrites the text that it was given": (text, gamma) => {
    text.fill(9);
    return { tokens: Array(gamma).fill(9), q: Array(gamma).fill(oneHot(9)) };
  },
  "offers more than it was asked for, in a typed array": (_, gamma) => ({
    tokens: new Uint16Array(gamma + 9).fill(97),
    q: Array(gamma + 9).fill(oneHot(97)),
    candidates: [],
  }),
  "draws more than it proposes": (_, gamma, randomness) => {
    const q = new Distribution(null, new Float32Array(SIZE).fill(1 / SIZE));
    const drawn = Array.from({ length: gamma }, (__, ahead) => randomness.categorical(q, ahead));
    assert.ok(randomness.bernoulli(1));
    return { tokens: drawn.slice(0, 1), q: [q] };
  },
  "proposes nothing": () => ({ tokens: [], q: [], candidates: [] }),
};

test("what is odd changes no text", async () => {
  const { pair } = scriptedPair((prompt) => `${prompt} and on and on`);
  for (const sampling of [{}, { temperature: 1, seed: 3 }]) {
    const alone = await pair.generate("hi", { draft: false, ...sampling });
    for (const [name, propose] of Object.entries(HARMLESS)) {
      for (const gamma of [3, "auto"] as const) {
        const drafted = await pair.generate("hi", { draft: new Own(propose), gamma, ...sampling });
        assert.deepEqual(drafted.tokenIds, alone.tokenIds, name);
      }
    }
  }
});
