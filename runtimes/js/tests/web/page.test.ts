// Claim: examples/web offers pairs, translates, chats, stops, continues and compares, works offline after
// the first visit, is usable by everyone axe-core can speak for, and takes no more memory with each text.

import assert from "node:assert/strict";
import { existsSync, mkdirSync } from "node:fs";
import { join, resolve } from "node:path";
import { after, before, describe, test } from "node:test";
import { build } from "esbuild";
import type { Browser, BrowserContext, Locator, Page } from "playwright-core";
// @ts-expect-error: a script of the example, without types
import { serve } from "../../../../../examples/web/serve.mjs";
import { checkAccessibility, PICTURES, pictures as takePictures, SIZES } from "./accessibility.js";
import { CHROMIUM, openChromium } from "./browsers.js";
import { PAIRS } from "./site.js";
import { DEEP, EXPECTED } from "./texts.js";

const EXAMPLE = resolve("../../examples/web");
const PAGE = join(EXAMPLE, "dist");
const FIRST = 120_000; // ms for a download, and for the measurement of a pair's first visit
const [TRANSLATOR, CHAT] = ["English to German", "SmolLM2 135M"];

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
    context = await browser.newContext({
      viewport: SIZES.desktop,
      permissions: ["clipboard-read", "clipboard-write"],
    });
    page = await context.newPage();
    page.setDefaultTimeout(FIRST);
    await page.goto(site.url);
  });

  after(async () => {
    await browser?.close();
    await site?.close();
  });

  const status = (text: string | RegExp): Promise<void> => page.locator("#status").filter({ hasText: text }).waitFor();
  const answer = (): Locator => page.locator(".answer").last();
  const text = (): Locator => answer().locator(".text");
  const button = (name: string): Locator => page.getByRole("button", { name, exact: true });
  const words = async (): Promise<string> => (await text().innerText()).trim();

  async function open(name: string): Promise<void> {
    if (await button("Models").isVisible()) await button("Models").click();
    await button(`Open ${name}`).click();
    await status("Loaded in");
  }

  async function send(prompt: string): Promise<void> {
    await page.locator("#prompt").fill(prompt);
    await button("Send").click();
  }

  async function translate(prompt: string): Promise<void> {
    await send(prompt);
    await status(/^Done/);
  }

  async function compare(): Promise<void> {
    await answer().getByRole("button", { name: "Compare" }).click();
    await status("Compared.");
    await answer().getByText("Plain decoding wrote the same").waitFor();
  }

  async function until(holds: () => boolean): Promise<void> {
    for (let waited = 0; !holds(); waited += 50) {
      assert.ok(waited < FIRST);
      await page.waitForTimeout(50);
    }
  }

  const pictures = (name: string): Promise<void> => takePictures(page, name);

  test("a card says what a pair is for, and how large", async () => {
    const card = page.locator(".card").filter({ hasText: CHAT });
    await card.waitFor();
    assert.match(await card.innerText(), /Chat in English.*\n[\s\S]*\d+ MB/);
    await pictures("models");
  });

  test("an aborted download says so, and continues", async () => {
    await button(`Open ${TRANSLATOR}`).click();
    await button("Cancel").click();
    await status("Stopped.");
    await open(TRANSLATOR);
    await pictures("samples");
  });

  test("a sample is sent by one click, and its text is Python's", async () => {
    const { prompt, text } = EXPECTED!["en-de"]!.cases[0]!;
    await button(prompt).click();
    await status(/^Done/);
    assert.equal(await words(), text);
  });

  test("drafted tokens are marked on demand", async () => {
    assert.equal(await text().locator("mark").count(), 0);
    const shown = await words();
    const marks = answer().getByRole("button", { name: "Drafted tokens" });
    await marks.click();
    assert.equal(await marks.getAttribute("aria-pressed"), "true");
    assert.ok((await text().locator("mark").count()) > 0);
    assert.equal(await words(), shown);
    await pictures("translation");
    await marks.click();
    assert.equal(await text().locator("mark").count(), 0);
  });

  test("an answer is copied as it stands", async () => {
    await answer().getByRole("button", { name: "Copy" }).click();
    await answer().getByText("Copied").waitFor();
    assert.equal(await page.evaluate(() => navigator.clipboard.readText()), EXPECTED!["en-de"]!.cases[0]!.text);
  });

  test("the gain over plain decoding is shown while a text is written", async () => {
    await page
      .locator("#speed")
      .filter({ hasText: /^×[\d.]+ · [\d.]+ tokens\/s$/ })
      .waitFor();
    await compare();
    await answer()
      .getByText(/^Plain decoding wrote the same \d+ tokens at [\d.]+ tokens\/s. With the draft: ×[\d.]+.$/)
      .waitFor();
  });

  test("the keyboard alone is enough", async () => {
    const { prompt, text } = EXPECTED!["en-de"]!.cases[2]!;
    await page.locator("#prompt").focus();
    await page.keyboard.type(prompt);
    await page.keyboard.press("Enter");
    await status(/^Done/);
    assert.equal(await words(), text);
    assert.equal(await page.evaluate(() => document.activeElement?.id), "prompt");
  });

  test("a long text stops at 256 tokens, goes on, and is plain decoding's", async () => {
    const { prompt } = EXPECTED!["en-de"]!.cases[3]!;
    await translate(`${prompt}. `.repeat(16));
    await answer().getByText("Stopped at 256 tokens.").waitFor();
    const begun = await words();
    const goOn = answer().getByRole("button", { name: "Continue" });
    while (await goOn.isVisible()) {
      await goOn.click();
      await status(/^Done/);
    }
    assert.ok((await words()).startsWith(begun.slice(0, -1)));
    assert.ok((await words()).length > begun.length);
    await compare();
  });

  test("320 pixels are wide enough", async () => {
    await page.setViewportSize({ width: 320, height: 640 });
    await checkAccessibility(page);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
    await page.screenshot({ path: join(PICTURES, "narrow.png") });
    await page.setViewportSize(SIZES.desktop);
  });

  const many = DEEP ? 200 : 30;
  test(`memory is flat over ${many} texts`, async () => {
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
    for (let text = 0; text < many; text++) await translate(`${prompt} ${text}`);
    const grown = (await memory()) - early;
    assert.ok(grown < 10e6, `${grown} bytes more`);
  });

  test("leaving in the middle of a text ends its worker", async () => {
    const { prompt } = EXPECTED!["en-de"]!.cases[0]!;
    await send(`${prompt} `.repeat(20));
    await text().filter({ hasText: /\w/ }).waitFor();
    assert.equal(page.workers().length, 1);
    await page.goto("about:blank");
    await until(() => page.workers().length === 0);
    await page.goto(site.url);
  });

  test("what was downloaded is marked, and is removed by a click", async () => {
    const card = page.locator(".card").filter({ hasText: TRANSLATOR });
    await card.getByText("on this device").waitFor();
    await button(`Remove ${TRANSLATOR} from this device`).click();
    await card.getByText("on this device").waitFor({ state: "hidden" });
    await open(TRANSLATOR);
  });

  test("an address without a pair is one sentence", async () => {
    await button("Models").click();
    await page.getByText("Open another pair").click();
    await page.getByLabel("Address of an exported pair").fill("nothing");
    await button("Open").click();
    await status("it is not an exported pair");
    await checkAccessibility(page);
  });

  test("chats, stops in the middle, and goes on", async () => {
    await open(CHAT);
    await send("Write a long story about a cat.");
    await text()
      .filter({ hasText: /\w+ \w+/ })
      .waitFor();
    await page.keyboard.press("Escape");
    await status("Stopped.");
    const stopped = await words();
    await send("What is two plus two? Answer with one word.");
    await status(/^Done/);
    assert.notEqual(await words(), stopped);
    assert.equal(await page.locator(".message").count(), 2);
    await pictures("chat");
    await button("New chat").click();
    assert.equal(await page.locator(".message").count(), 0);
  });

  test("reloads, opens the pair and translates without a server", async () => {
    await page.evaluate(() => navigator.serviceWorker.ready);
    await site.close();
    await page.reload();
    await open(TRANSLATOR);
    const { prompt, text } = EXPECTED!["en-de"]!.cases[2]!;
    await translate(prompt);
    assert.equal(await words(), text);
  });
});

test(
  "what a model writes is text: no element of its own, no address that runs, nothing fetched",
  { skip: missing },
  async () => {
    const entryPoints = [join(EXAMPLE, "src/markdown.ts")];
    const { outputFiles } = await build({ entryPoints, bundle: true, format: "esm", platform: "node", write: false });
    const source = `data:text/javascript;base64,${Buffer.from(outputFiles[0]!.contents).toString("base64")}`;
    const { htmlOf } = (await import(source)) as { htmlOf: (text: string) => string };
    assert.equal(htmlOf("**bold**\n\n1. one"), "<p><strong>bold</strong></p>\n<ol>\n<li>one</li>\n</ol>\n");
    const hostile = [
      '<img src=x onerror="alert(1)">',
      "![picture](https://example.org/a.png)",
      "[run](javascript:alert(1))",
      "[run](data:text/html,x)",
      "`<script>`",
      "```\n<iframe>\n```",
    ];
    const html = htmlOf(hostile.join("\n\n"));
    assert.doesNotMatch(html, /<(img|script|iframe)|href="(javascript|data):/);
  },
);
