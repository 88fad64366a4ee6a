// Times the page examples/web in Chromium: node benchmarks/browser.mjs [RUNS]
//
// `make test-web` installs and exports what it needs. Prints JSON: for each pair the bytes of its folder, the
// memory of page and worker, the first load (download from this machine, measurement of row invariance),
// a load of what is kept, the time from there to the first token, and tokens/s after the first call of the
// same texts, with and without draft. The browser has a profile on disk, as a user's has: a private
// window compiles the runtime at each visit.

import { createRequire } from "node:module";
import { mkdtempSync, readdirSync, rmSync, statSync } from "node:fs";
import { cpus, loadavg, tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { serve } from "../examples/web/serve.mjs";

const ROOT = join(dirname(fileURLToPath(import.meta.url)), "..");
const PAIRS = join(ROOT, "build/web");
const KEEPING_MS = 5000; // in which the browser keeps the code that it compiled
const PROMPTS = {
  "en-de": [
    "Save changes to the document before closing?",
    "This package contains the documentation.",
    "Select a folder to save the backup in.",
  ],
  smollm2: ["Write a sentence about a cat.", "Why is the sky blue?"],
};
const { chromium } = createRequire(join(ROOT, "runtimes/js/package.json"))("playwright-core");

async function main(runs) {
  const site = await serve({ "/": join(ROOT, "examples/web/dist"), "/pairs/": PAIRS });
  const found = {
    cpu: cpus()[0].model,
    load: loadavg()[0],
    browser: await withBrowser((browser) => browser.browser().version()),
    runs,
    pairs: {},
  };
  try {
    for (const name of Object.keys(PROMPTS))
      found.pairs[name] = await withBrowser((browser) => measured(browser, site.url, name, runs));
  } finally {
    await site.close();
  }
  console.log(JSON.stringify(found, null, 2));
}

// What `use` returns of a browser with a new profile.
async function withBrowser(use) {
  const profile = mkdtempSync(join(tmpdir(), "edgespec-browser-"));
  const browser = await chromium.launchPersistentContext(profile, {
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox"],
  });
  try {
    return await use(browser);
  } finally {
    await browser.close();
    rmSync(profile, { recursive: true });
  }
}

async function measured(browser, url, name, runs) {
  const page = await browser.newPage();
  page.setDefaultTimeout(300_000);
  const firstLoad = await loaded(page, url, name);
  await firstTokenS(page, PROMPTS[name][0]);
  await page.waitForTimeout(KEEPING_MS);
  const [keptLoads, firstTokens] = [[], []];
  for (let run = 0; run < runs; run++) {
    const load = await loaded(page, url, name);
    keptLoads.push(load);
    firstTokens.push(load + (await firstTokenS(page, PROMPTS[name][0])));
  }
  const speeds = { plain: [], drafted: [] };
  for (let run = 0; run < runs; run++) {
    for (const prompt of PROMPTS[name]) {
      await page.locator("#new-chat").click();
      await firstTokenS(page, prompt);
      const answer = page.locator(".answer").last();
      speeds.drafted.push(speedIn(await answer.locator(".figures").innerText()));
      await answer.getByRole("button", { name: "Compare" }).click();
      await page.locator("#status").filter({ hasText: "Compared." }).waitFor();
      speeds.plain.push(speedIn(await answer.getByText("Plain decoding wrote the same").innerText()));
    }
  }
  const memory = await page.evaluate(async () => (await performance.measureUserAgentSpecificMemory()).bytes);
  await page.close();
  return {
    downloadMB: megabytes(bytesOf(join(PAIRS, name))),
    memoryMB: megabytes(memory),
    firstLoadS: firstLoad,
    keptLoadS: median(keptLoads),
    keptLoadToFirstTokenS: Number(median(firstTokens).toFixed(1)),
    plainTokensPerS: median(speeds.plain),
    draftedTokensPerS: median(speeds.drafted),
  };
}

async function loaded(page, url, name) {
  await page.goto(url);
  await page.getByText("Open another pair").click();
  await page.getByLabel("Address of an exported pair").fill(`pairs/${name}`);
  await page.getByRole("button", { name: "Open", exact: true }).click();
  const status = page.locator("#status").filter({ hasText: "Loaded in" });
  await status.waitFor();
  return Number(/in ([\d.]+) s/.exec(await status.innerText())[1]);
}

// From sending the first prompt after a load to its first text, by the page's own clock; the text is then finished.
async function firstTokenS(page, prompt) {
  await page.locator("#prompt").fill(prompt);
  const seconds = await page.evaluate(async () => {
    const shown = new Promise((resolve) => {
      const watch = new MutationObserver(() => {
        if (!/\S/.test([...document.querySelectorAll(".answer .text")].at(-1)?.textContent ?? "")) return;
        watch.disconnect();
        resolve();
      });
      watch.observe(document.querySelector("#log"), { childList: true, subtree: true, characterData: true });
    });
    const began = performance.now();
    document.querySelector("#send").click();
    await shown;
    return (performance.now() - began) / 1000;
  });
  await page.locator("#status").filter({ hasText: /^Done/ }).waitFor();
  return seconds;
}

function speedIn(figures) {
  return Number(/([\d.]+) tokens\/s/.exec(figures)[1]);
}

function bytesOf(folder) {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  return files.reduce((sum, entry) => sum + statSync(join(entry.parentPath, entry.name)).size, 0);
}

function megabytes(bytes) {
  return Math.round(bytes / 1e6);
}

function median(values) {
  return values.toSorted((a, b) => a - b)[values.length >> 1];
}

await main(Number(process.argv[2] ?? 3));
