// Claim: examples/web loads pairs, translates, stops, chats, works offline after the first visit, is
// usable by everyone axe-core can speak for, and takes no more memory with each text.

import assert from "node:assert/strict";
import { existsSync, mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { after, before, describe, test } from "node:test";
import type { Browser, BrowserContext, Page } from "playwright-core";
// @ts-expect-error: a script of the example, without types
import { serve } from "../../../../../examples/web/serve.mjs";
import { CHROMIUM, openChromium } from "./browsers.js";
import { PAIRS } from "./site.js";
import { EXPECTED } from "./texts.js";

const PAGE = resolve("../../examples/web/dist");
const PICTURES = join(PAIRS, "screenshots");
const AXE = createRequire(import.meta.url).resolve("axe-core/axe.min.js");
const FIRST = 120_000; // ms for a download, and for the measurement of a pair's first visit

const missing =
  EXPECTED === null || !existsSync(PAGE)
    ? "make test-web exports the pairs and builds the page"
    : CHROMIUM === null && "there is no chromium";

describe("examples/web", { skip: missing }, () => {
  let site: { url: string; close(): Promise<void> };
  let browser: Browser;
  let context: BrowserContext;
  let page: Page;

  before(async () => {
    mkdirSync(PICTURES, { recursive: true });
    site = await serve({ "/": PAGE, "/pairs/": PAIRS });
    browser = await openChromium();
    context = await browser.newContext();
    page = await context.newPage();
    page.setDefaultTimeout(FIRST);
    await page.goto(site.url);
  });

  after(async () => {
    await browser?.close();
    await site?.close();
  });

  const status = (text: string | RegExp): Promise<void> => page.locator("#status").filter({ hasText: text }).waitFor();
  const lastAnswer = (): Promise<string> => page.locator("#texts .answer").last().innerText();

  async function load(address: string): Promise<void> {
    await page.getByLabel("Address of an exported pair").fill(address);
    await page.getByRole("button", { name: "Load" }).click();
    await status("Loaded in");
  }

  async function translate(text: string): Promise<void> {
    await page.getByLabel("Text to translate").fill(text);
    await page.getByRole("button", { name: "Translate" }).click();
    await status(/^Done/);
  }

  async function until(holds: () => boolean): Promise<void> {
    for (let waited = 0; !holds(); waited += 50) {
      assert.ok(waited < FIRST);
      await page.waitForTimeout(50);
    }
  }

  async function picture(name: string): Promise<void> {
    await page.screenshot({ path: join(PICTURES, `${name}.png`), fullPage: true });
  }

  async function checkAccessibility(): Promise<void> {
    await page.addScriptTag({ path: AXE });
    const violations = await page.evaluate(async () => {
      const { axe } = globalThis as unknown as {
        axe: { run(): Promise<{ violations: { id: string; nodes: { html: string }[] }[] }> };
      };
      return (await axe.run()).violations.map(({ id, nodes }) => `${id}: ${nodes.map(({ html }) => html).join(" ")}`);
    });
    assert.deepEqual(violations, []);
  }

  test("an aborted download says so, and continues", async () => {
    await page.getByLabel("Address of an exported pair").fill("pairs/en-de");
    await page.getByRole("button", { name: "Load" }).click();
    await page.getByRole("button", { name: "Cancel" }).click();
    await status("Stopped.");
    await load("pairs/en-de");
  });

  test("translates Python's text, drafted tokens marked, and compares with plain decoding", async () => {
    const { prompt, text } = EXPECTED!["en-de"]!.cases[0]!;
    await page.getByLabel("compare with plain decoding").check();
    await translate(prompt);
    await status("both texts are the same");
    assert.equal(await lastAnswer(), text);
    assert.ok((await page.locator("#texts .answer").last().locator("mark").count()) > 0);
    assert.equal(await page.locator("#texts .plain mark").count(), 0);
    assert.match(await page.locator("#drafted").innerText(), /\d+\s+[\d.]+\s+\d+ %/);
    await page.getByLabel("compare with plain decoding").uncheck();
    await picture("translation");
  });

  test("the keyboard alone is enough", async () => {
    await page.getByLabel("Text to translate").focus();
    await page.keyboard.press("Control+A");
    await page.keyboard.type(EXPECTED!["en-de"]!.cases[1]!.prompt);
    await page.keyboard.press("Enter");
    await status(/^Done/);
    assert.equal(await lastAnswer(), EXPECTED!["en-de"]!.cases[1]!.text);
  });

  test("axe-core finds nothing: light, dark, and 320 pixels wide without scrolling sideways", async () => {
    for (const colorScheme of ["light", "dark"] as const) {
      await page.emulateMedia({ colorScheme });
      await checkAccessibility();
      await picture(colorScheme);
    }
    await page.setViewportSize({ width: 320, height: 640 });
    await checkAccessibility();
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
    await picture("narrow");
    await page.setViewportSize({ width: 1280, height: 720 });
  });

  test("memory is flat over 200 texts", async () => {
    const memory = (): Promise<number> =>
      page.evaluate(
        async () =>
          (
            await (
              performance as unknown as { measureUserAgentSpecificMemory(): Promise<{ bytes: number }> }
            ).measureUserAgentSpecificMemory()
          ).bytes,
      );
    const { prompt } = EXPECTED!["en-de"]!.cases[0]!;
    for (let text = 0; text < 5; text++) await translate(`${prompt} ${text}`);
    const early = await memory();
    for (let text = 0; text < 200; text++) await translate(`${prompt} ${text}`);
    const grown = (await memory()) - early;
    assert.ok(grown < 10e6, `${grown} bytes more`);
  });

  test("leaving in the middle of a text ends its worker", async () => {
    const { prompt } = EXPECTED!["en-de"]!.cases[0]!;
    await page.getByLabel("Text to translate").fill(`${prompt} `.repeat(20));
    await page.getByRole("button", { name: "Translate" }).click();
    await page.locator("#texts .answer").last().filter({ hasText: /\w/ }).waitFor();
    assert.equal(page.workers().length, 1);
    await page.goto("about:blank");
    await until(() => page.workers().length === 0);
    await page.goto(site.url);
    await load("pairs/en-de");
  });

  test("an address without a pair is one sentence", async () => {
    await page.getByLabel("Address of an exported pair").fill("nothing");
    await page.getByRole("button", { name: "Load" }).click();
    await status("it is not an exported pair");
  });

  test("chats, stops in the middle, and goes on", async () => {
    await load("pairs/smollm2");
    await page.getByLabel("Your message").fill("Write a long story about a cat.");
    await page.getByRole("button", { name: "Send" }).click();
    await page
      .locator("#texts .answer")
      .last()
      .filter({ hasText: /\w+ \w+/ })
      .waitFor();
    await page.getByRole("button", { name: "Stop" }).click();
    await status("Stopped.");
    const stopped = await lastAnswer();
    await page.getByLabel("Your message").fill("What is two plus two? Answer with one word.");
    await page.getByRole("button", { name: "Send" }).click();
    await status("Done.");
    assert.notEqual(await lastAnswer(), stopped);
    await picture("chat");
  });

  test("reloads, opens the pair and translates without a server", async () => {
    await page.evaluate(() => navigator.serviceWorker.ready);
    await site.close();
    await page.reload();
    await load("pairs/en-de");
    const { prompt, text } = EXPECTED!["en-de"]!.cases[2]!;
    await translate(prompt);
    assert.equal(await lastAnswer(), text);
    await picture("offline");
  });
});
