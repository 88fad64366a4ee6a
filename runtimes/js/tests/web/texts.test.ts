// Claim: in a browser a pair gives the text of plain decoding, whatever drafts; where the target computes
// in float32 that is Python's text. Every browser gives the same texts, and measures, or confirms, what Node.js
// measured on the same WebAssembly.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, test } from "node:test";
import { CHROMIUM, FIREFOX, openChromium, openFirefox } from "./browsers.js";
import { openSite, PAIRS } from "./site.js";
import { DEEP, EXPECTED, QUESTIONS, taskFor, type TextsTask } from "./texts.js";
import type { FoundTexts } from "./texts-worker.js";

const skip = EXPECTED === null ? "make test-web exports the pairs" : false;
const skipChromium = skip || (CHROMIUM === null && "there is no chromium");
const skipFirefox = skip || (FIREFOX === null && "there is no firefox");

async function inChromium(
  task: TextsTask,
  { isolated = true, ships = true, args = [] as readonly string[] } = {},
): Promise<FoundTexts> {
  const site = await openSite("texts-worker.ts", task, { isolated, ships });
  const browser = await openChromium(...args);
  try {
    const page = await browser.newPage();
    await page.goto(site.url);
    return checked(await site.result);
  } finally {
    await browser.close();
    await site.close();
  }
}

async function inFirefox(task: TextsTask, { ships = true } = {}): Promise<FoundTexts> {
  const site = await openSite("texts-worker.ts", task, { ships });
  const close = openFirefox(site.url);
  try {
    return checked(await site.result);
  } finally {
    await close();
    await site.close();
  }
}

function checked(result: unknown): FoundTexts {
  const { error } = result as { error?: string };
  assert.equal(error, undefined);
  return result as FoundTexts;
}

function checkSpeculation({ rowInvariance, plain, drafted, accepted }: FoundTexts): void {
  assert.equal(rowInvariance?.is_row_invariant, true);
  assert.deepEqual(drafted, plain);
  assert.ok(accepted > 0, "no drafted token was accepted");
}

/** What Node.js measured of a pair, on the same WebAssembly. */
function shippedWith(pair: string): unknown {
  return JSON.parse(readFileSync(join(PAIRS, pair, "row_invariance.json"), "utf8"))[0].row_invariance;
}

const WEBGPU_TEXTS = DEEP ? 3 : 2;
const TRANSLATIONS = DEEP ? 50 : 15; // Node.js has all of them

const [enDe, chat] = skip
  ? [null, null]
  : [taskFor("en-de", { count: TRANSLATIONS }), taskFor("smollm2", { count: QUESTIONS })];

describe("Chromium", { skip: skipChromium }, () => {
  test("en-de: Python's texts, with and without draft; what it measures is what was shipped", async () => {
    const found = await inChromium(enDe!, { ships: false });
    checkSpeculation(found);
    assert.deepEqual(found.rowInvariance, shippedWith("en-de"));
    assert.deepEqual(found.plain, EXPECTED!["en-de"]!.cases.slice(0, TRANSLATIONS));
  });

  test("two threads, where the page is isolated, give the same texts", async () => {
    const found = await inChromium({ ...taskFor("en-de", { count: 3 }), threads: 2 });
    assert.equal(found.isolated, true);
    checkSpeculation(found);
    assert.deepEqual(found.plain, EXPECTED!["en-de"]!.cases.slice(0, 3));
  });

  test("with caches in place the texts are the same, and so is the row invariance that is measured", async () => {
    const found = await inChromium(taskFor("en-de", { count: 4, inPlace: true }), { ships: false });
    checkSpeculation(found);
    assert.deepEqual(found.rowInvariance, shippedWith("en-de"));
    assert.deepEqual(found.plain, EXPECTED!["en-de"]!.cases.slice(0, 4));
    const threads = await inChromium(taskFor("en-de", { count: 2, threads: 2, inPlace: true }));
    assert.deepEqual(threads.plain, found.plain.slice(0, 2));
  });

  test("a page that is not isolated runs with one thread, and refuses two", async () => {
    const task = taskFor("en-de", { count: 1 });
    const found = await inChromium(task, { isolated: false });
    assert.equal(found.isolated, false);
    checkSpeculation(found);
    await assert.rejects(inChromium({ ...task, threads: 2 }, { isolated: false }), /NoThreadsError/);
  });

  // SwiftShader takes a second a call, so row invariance is not measured.
  test("WebGPU: Python's texts, with and without draft", async () => {
    const args = ["--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader"];
    const found = await inChromium(taskFor("en-de", { count: WEBGPU_TEXTS, provider: "webgpu" }), { args });
    assert.deepEqual(found.plain, EXPECTED!["en-de"]!.cases.slice(0, WEBGPU_TEXTS));
    assert.deepEqual(found.drafted, found.plain);
    assert.ok(found.accepted > 0, "no drafted token was accepted");
  });

  // Operators that WebGPU lacks, such as products of integers, run in WebAssembly.
  test("WebGPU: an int8 pair has one text to a prompt, with and without draft", async () => {
    const args = ["--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader"];
    const found = await inChromium(
      { ...taskFor("smollm2", { count: 2, provider: "webgpu" }), maxNewTokens: 8 },
      { args },
    );
    assert.deepEqual(found.drafted, found.plain);
    assert.ok(found.accepted > 0, "no drafted token was accepted");
  });
});

describe("Firefox", { skip: skipFirefox }, () => {
  test("en-de: Python's texts, with and without draft; what it measures is what was shipped", async () => {
    const found = await inFirefox(enDe!, { ships: false });
    checkSpeculation(found);
    assert.deepEqual(found.rowInvariance, shippedWith("en-de"));
    assert.deepEqual(found.plain, EXPECTED!["en-de"]!.cases.slice(0, TRANSLATIONS));
  });
});

test(
  "with caches in place both browsers have the int8 texts of copied ones",
  { skip: skipChromium || skipFirefox },
  async () => {
    const few = { count: 1, inPlace: true };
    const copied = await inChromium(taskFor("smollm2", { ...few, inPlace: false }));
    checkSpeculation(copied);
    assert.deepEqual(await inChromium(taskFor("smollm2", few)), copied);
    assert.deepEqual(await inFirefox(taskFor("smollm2", few)), copied);
  },
);

test(
  "both browsers confirm the shipped result and have the same int8 texts",
  { skip: skipChromium || skipFirefox },
  async () => {
    const [chromium, firefox] = [await inChromium(chat!), await inFirefox(chat!)];
    checkSpeculation(chromium);
    assert.deepEqual(chromium.rowInvariance, shippedWith("smollm2"));
    const { accepted } = chromium; // γ goes by the clock, so how much was drafted differs
    assert.deepEqual({ ...firefox, accepted }, chromium);
  },
);
