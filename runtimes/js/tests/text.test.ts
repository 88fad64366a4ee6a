// Claim: streams release text once, spans are those of the tokens, and prompts are planned as in Python.

import assert from "node:assert/strict";
import { test } from "node:test";
import { processorOf, samplingOf } from "../src/core/sampling.js";
import { TokenIntersection } from "../src/drafters/token-intersection.js";
import { SomeTokens } from "../src/drafters/vocabulary-map.js";
import { byteSpans } from "../src/pair/byte-spans.js";
import { chatText } from "../src/pair/chat-format.js";
import { GrowingText, stopStrings } from "../src/pair/growing-text.js";
import { callEnd, planPrefill, reusableLength } from "../src/pair/prefill.js";
import type { TextCodec } from "../src/pair/tokenizer.js";

/** Tokens are bytes. */
const BYTES = { decode: (tokens: readonly number[]) => new TextDecoder().decode(Uint8Array.from(tokens)) } as TextCodec;

function released(text: string, stop: readonly string[] = []): { pieces: string[]; stopped: boolean } {
  const growing = new GrowingText(BYTES, stop);
  const pieces = [];
  for (const byte of new TextEncoder().encode(text)) if (!growing.stopped) pieces.push(growing.add(byte));
  return { pieces: [...pieces, growing.end()], stopped: growing.stopped };
}

test("the beginning of a character is held back", () => {
  assert.deepEqual(released("aé€"), { pieces: ["a", "", "é", "", "", "€", ""], stopped: false });
});

test("what may begin a stop string is held back, and a stop string is no text", () => {
  assert.deepEqual(released("a--b", ["--"]), { pieces: ["a", "", "", ""], stopped: true });
  assert.equal(released("a-b-", ["--"]).pieces.join(""), "a-b-");
});

test("a stop string must have characters", () => {
  assert.deepEqual(stopStrings("x"), ["x"]);
  for (const wrong of ["", [""], [1], 7]) assert.throws(() => stopStrings(wrong as string), { name: "UsageError" });
});

test("spans of bytes follow the names of tokens", () => {
  const plain = (name: string) => ({ name, text: null });
  assert.deepEqual(byteSpans([{ name: "<s>", text: "<s>" }, plain("Ã"), plain("©Ġa")], "<s>é a"), [
    { start: 0, end: 3 },
    { start: 3, end: 4 },
    { start: 4, end: 7 },
  ]);
  assert.deepEqual(byteSpans([plain("▁a"), plain("▁b"), plain("<0x0A>")], "a b\n"), [
    { start: 0, end: 1 },
    { start: 1, end: 3 },
    { start: 3, end: 4 },
  ]);
  assert.equal(byteSpans([plain("A")], "a"), null); // a normalizer changed the text
  assert.equal(byteSpans([plain("a")], "ab"), null);
});

const FORMAT = {
  before: "<",
  after: ">",
  before_answer: "> ",
  between: "|",
  trims: ["user"],
  hides: "</think>",
  hides_newlines: true,
};

test("a conversation's text has ranges of its answers and contents", () => {
  const { text, assistantSpans, contents } = chatText(FORMAT, [
    { role: "user", content: " a\n" },
    { role: "assistant", content: "so…</think>\n\nb" },
    { role: "user", content: "c" },
  ]);
  assert.equal(text, "<a> b|c>");
  assert.deepEqual(
    assistantSpans.map(({ start, end }) => text.slice(start, end)),
    [" b"],
  );
  assert.deepEqual(
    contents.map(({ start, end }) => text.slice(start, end)),
    ["a", "b", "c"],
  );
});

test("messages in another order are refused", () => {
  const user = { role: "user", content: "a" } as const;
  for (const wrong of [
    [],
    [user, user],
    [{ role: "assistant", content: "a" }],
    [{ role: "system", content: "a" }, user],
  ]) {
    assert.throws(() => chatText(FORMAT, wrong as (typeof user)[]), { name: "UsageError" });
  }
});

test("a name is passed over, unless the model's template reads it", () => {
  const named = [{ role: "user", content: "a", name: "b" }] as const;
  const plain = [{ role: "user", content: "a" }] as const;
  assert.equal(chatText(FORMAT, named).text, chatText(FORMAT, plain).text);
  assert.throws(() => chatText({ ...FORMAT, reads: ["name"] }, named), { name: "UsageError" });
});

test("answers are computed in short calls, all else in long ones, and whole calls are reused", () => {
  const plan = planPrefill(10, [{ start: 4, end: 7 }], true);
  assert.deepEqual(
    plan.map((call) => call && `${call.start}-${call.end}`),
    [..."0000"].map(() => "0-4").concat([null, null, null] as never[], ["7-10", "7-10", "7-10"]),
  );
  assert.deepEqual(
    [0, 4, 7].map((start) => callEnd(start, plan, 2)),
    [4, 6, 10],
  );
  const positions = plan.map((call, index) => ({ key: String(index), call }));
  assert.equal(reusableLength(positions, positions), 10);
  assert.equal(reusableLength(positions.slice(0, 9), positions), 7); // a long call is not reused in part
  assert.equal(reusableLength(positions.slice(0, 6), positions), 6);
});

test("a vocabulary whose parts do not fit is refused", () => {
  for (const [outputs, inputs] of [
    [[], []],
    [
      [1, 0],
      [0, 0],
    ],
    [
      [0, 5],
      [0, 0],
    ],
    [[0], [1]],
  ] as const) {
    assert.throws(() => new SomeTokens(outputs, inputs), RangeError);
  }
});

test("a draft may read more tokens than it proposes", () => {
  const some = new SomeTokens([1, 3], [0, 1, 2, 3], 4);
  assert.deepEqual(some.toDraftIds([3, 0]), [3, 0]);
  assert.throws(() => new SomeTokens([1, 3], [0, 1, 2, 4], 4), {
    name: "RangeError",
    message: "inputs name tokens that the draft lacks",
  });
  assert.throws(() => new SomeTokens([1, 3], [0, 1, 2, 3]), RangeError);
});

// Target tokens 1, 3 and 4 are the draft's 5, 0 and 2; the others are spelled.
const COMMON = {
  common: [
    [1, 3, 4],
    [5, 0, 2],
  ],
  spellings: [[4, 4], [5], [1, 3, 4], [0], [2]],
  begin: [3],
} as const;

test("a draft with another tokenizer reads every token and proposes the common ones", () => {
  const both = new TokenIntersection(COMMON, 6);
  assert.deepEqual(both.toDraftIds([2, 1, 0]), [1, 3, 4, 5, 4, 4]);
  assert.deepEqual(
    [5, 2, 1].map((token) => both.toTargetId(token)),
    [1, 4, -1],
  );
  const { tokens, assistantSpans } = both.prompt([1, 2, 3, 0], [{ start: 1, end: 3 }]);
  assert.deepEqual(tokens, [3, 5, 1, 3, 4, 0, 4, 4]);
  assert.deepEqual(assistantSpans, [{ start: 2, end: 6 }]);
  const logits = Float32Array.from([0.1, 0.5, 0.3, 0.01, 0.01, 0.2], Math.log);
  const q = both.distribution(processorOf(samplingOf({ temperature: 1 })), logits);
  assert.deepEqual(
    [0, 1, 2, 3, 4].map((token) => Math.round(600 * q.of(token))),
    [0, 200, 0, 100, 300],
  );
});

test("common tokens that do not fit the two models are refused", () => {
  const wrong: Record<string, unknown>[] = [
    { common: [[], []] },
    {
      common: [
        [3, 1, 4],
        [0, 5, 2],
      ],
    },
    {
      common: [
        [1, 3, 5],
        [5, 0, 2],
      ],
    },
    {
      common: [
        [1, 3, 4],
        [5, 0, 0],
      ],
    },
    {
      common: [
        [1, 3, 4],
        [6, 0, 2],
      ],
    },
    { begin: [6] },
    { spellings: [[4], [5], [], [0], [2]] },
    { spellings: [[4], [5, 5], [1], [0], [2]] },
  ];
  for (const change of wrong)
    assert.throws(() => new TokenIntersection({ ...COMMON, ...change } as typeof COMMON, 6), RangeError);
});
