// Claim: the page at / of `edgespec serve` chats, stops, begins anew and says what is wrong, by the keyboard
// alone and on a phone, and axe-core finds nothing in it. The server is the one of Python, with SmolLM2.

import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { after, before, describe, test } from "node:test";
import type { Browser, Locator, Page } from "playwright-core";
import { checkAccessibility, pictures, SIZES } from "./accessibility.js";
import { CHROMIUM, openChromium } from "./browsers.js";
import { PAIRS } from "./site.js";

const EDGESPEC = resolve("../../.venv/bin/edgespec");
const PAIR = join(PAIRS, "smollm2");
const PATIENCE = 120_000; // ms for an answer on a machine with much else to do
const missing =
  !existsSync(EDGESPEC) || !existsSync(PAIR)
    ? "make test-web installs edgespec and exports the pair"
    : CHROMIUM === null && "there is no chromium";

/** The server, and its address when it takes requests. */
async function serving(): Promise<{ server: ChildProcess; url: string }> {
  const server = spawn(EDGESPEC, ["serve", `smollm2=${PAIR}`, "--port", "0", "--threads", "1"], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  let log = "";
  return new Promise((resolved, reject) => {
    server.stderr!.setEncoding("utf8").on("data", (text: string) => {
      log += text;
      const address = /at (http:\/\/\S+)\/v1,/.exec(log)?.[1];
      if (address) resolved({ server, url: address });
    });
    server.once("exit", (code) => reject(new Error(`the server ended with ${code}: ${log}`)));
  });
}

describe("the server's page", { skip: missing }, () => {
  let served: { server: ChildProcess; url: string };
  let browser: Browser;
  let page: Page;

  before(async () => {
    served = await serving();
    browser = await openChromium();
    const context = await browser.newContext({
      viewport: SIZES.desktop,
      bypassCSP: true, // for axe-core; the page itself may run no other script
      permissions: ["clipboard-read", "clipboard-write"],
    });
    page = await context.newPage();
    page.setDefaultTimeout(PATIENCE);
    await page.goto(served.url);
    await page.getByRole("option", { name: "smollm2" }).waitFor({ state: "attached" });
  });

  after(async () => {
    await browser?.close();
    served?.server.removeAllListeners("exit").kill("SIGTERM");
  });

  const button = (name: string): Locator => page.getByRole("button", { name, exact: true });
  const answer = (): Locator => page.locator("article.assistant").last();
  const begun = (): Promise<void> =>
    answer()
      .locator("p")
      .filter({ hasText: /\w+ \w+/ })
      .waitFor();

  async function ask(question: string): Promise<void> {
    await page.getByLabel("Message").focus();
    await page.keyboard.type(question);
    await page.keyboard.press("Enter");
  }

  test("an answer comes by the keyboard alone, with what it took, and can be copied", async () => {
    await ask("What is two plus two? Answer in one short sentence.");
    await answer()
      .locator("footer")
      .filter({ hasText: /\d+ tokens · [\d.]+ tokens\/s/ })
      .waitFor();
    await answer().getByRole("button", { name: "Copy" }).click();
    const copied = await page.evaluate(() => navigator.clipboard.readText());
    assert.equal(copied.trim(), (await answer().locator("p").innerText()).trim());
    assert.ok(copied.length > 0);
    assert.equal(await page.evaluate(() => document.activeElement?.tagName), "BUTTON");
  });

  test("an answer is stopped, and stays; the next one knows it", async () => {
    await ask("Tell a long story about a cat.");
    await begun();
    await button("Stop").click();
    await answer().locator("footer").getByText("stopped").waitFor();
    await button("Send").waitFor();
    assert.equal(await page.locator("article").count(), 4);
    await pictures(page, "server");
  });

  test("320 pixels are wide enough", async () => {
    await page.setViewportSize({ width: 320, height: 640 });
    await checkAccessibility(page);
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
    await page.setViewportSize(SIZES.desktop);
  });

  test("a new chat is empty, also while an answer is written, and offers prompts", async () => {
    await ask("Tell a long story about a dog.");
    await begun();
    await button("New chat").click();
    await button("Send").waitFor();
    assert.equal(await page.locator("article").count(), 0);
    await pictures(page, "server-empty");
    const asked = page.waitForRequest("**/v1/chat/completions");
    await button("Why is the sky blue? Answer in one sentence.").click();
    assert.deepEqual(
      (await asked).postDataJSON().messages.map(({ role }: { role: string }) => role),
      ["user"],
    );
    await answer().locator("footer").getByText("tokens/s").waitFor();
  });

  test("a server that is gone is one sentence", async () => {
    served.server.removeAllListeners("exit").kill("SIGTERM");
    await new Promise((ended) => served.server.once("exit", ended));
    await ask("Hello");
    await page.locator("article.error").waitFor();
    assert.match(await page.locator("article.error").innerText(), /^The server does not answer: is it running\?$/m);
    await checkAccessibility(page);
  });
});
