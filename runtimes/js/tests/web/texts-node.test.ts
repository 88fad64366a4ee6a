// Claim: on onnxruntime-web in Node.js, pairs whose target computes in float32 give Python's texts, with
// and without draft.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
// @ts-expect-error: a script of the example, without types
import { serve } from "../../../../../examples/web/serve.mjs";
import { load } from "../../src/web/index.js";
import { PAIRS } from "./site.js";
import { EXPECTED, QUESTIONS } from "./texts.js";

describe("Node.js", { skip: EXPECTED === null && "make test-web exports the pairs" }, () => {
  let site: { url: string; close(): Promise<void> };

  before(async () => {
    site = await serve({ "/": PAIRS });
  });

  after(() => site.close());

  for (const name of ["en-de", "smollm2-fp32"]) {
    test(`${name}: Python's texts`, async () => {
      const { cases, chat, maxNewTokens } = EXPECTED![name]!;
      const asked = chat ? cases.slice(0, QUESTIONS) : cases;
      const pair = await load(`${site.url}${name}`, { allowInexact: true }); // measured in the browsers' tests
      let accepted = 0;
      for (const { prompt, tokenIds, text } of asked) {
        for (const draft of [false, true]) {
          const found = await pair.generate(prompt, { draft, chat, maxNewTokens });
          assert.deepEqual({ tokenIds: found.tokenIds, text: found.text }, { tokenIds, text });
          accepted += found.stats.accepted;
        }
      }
      assert.ok(accepted > 0, "no drafted token was accepted");
      await pair.dispose();
    });
  }
});
