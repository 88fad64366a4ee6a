// Claim: with caches in WebAssembly's memory, onnxruntime-web in Node.js gives Python's texts, its memory
// stays the same when they are made again, and where it cannot work so it says so.
//
// A process has one runtime, which is in place here.

import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
// @ts-expect-error: a script of the example, without types
import { serve } from "../../../../../examples/web/serve.mjs";
import { load } from "../../src/web/index.js";
import { PAIRS } from "./site.js";
import { DEEP, EXPECTED } from "./texts.js";

const wasmPaths = new URL(".", import.meta.resolve("onnxruntime-web/ort-wasm-simd-threaded.wasm")).href;
const HOW = { inPlace: true, wasmPaths, threads: 1 } as const;
const MEGABYTE = 2 ** 20;

describe("in place", { skip: EXPECTED === null && "make test-web exports the pairs" }, () => {
  let site: { url: string; close(): Promise<void> };

  before(async () => {
    site = await serve({ "/": PAIRS });
  });

  after(() => site.close());

  test("what cannot be in place is refused", async () => {
    const url = `${site.url}en-de`;
    await assert.rejects(load(url, { inPlace: true }), {
      name: "UsageError",
      message: /^inPlace needs wasmPaths; give /,
    });
    await assert.rejects(load(url, { ...HOW, wasmPaths: "file:///nowhere/" }), {
      name: "RuntimeError",
      message: /^starting WebAssembly failed in the runtime/,
    });
  });

  test("en-de: Python's texts, with and without draft, and memory that stays", async () => {
    const { cases, maxNewTokens } = EXPECTED!["en-de"]!;
    const pair = await load(`${site.url}en-de`, HOW);
    let accepted = 0;
    const translate = async () => {
      for (const { prompt, tokenIds, text } of cases) {
        for (const draft of [false, true]) {
          const found = await pair.generate(prompt, { draft, maxNewTokens });
          assert.deepEqual({ tokenIds: found.tokenIds, text: found.text }, { tokenIds, text });
          accepted += found.stats.accepted;
        }
      }
    };
    await translate();
    const used = process.memoryUsage().rss;
    for (let round = 0; round < (DEEP ? 9 : 1); round++) await translate();
    assert.ok(accepted > 0, "no drafted token was accepted");
    assert.ok(
      process.memoryUsage().rss - used < 50 * MEGABYTE,
      `${(process.memoryUsage().rss - used) / MEGABYTE} MB more`,
    );
    await pair.dispose();
  });
});
