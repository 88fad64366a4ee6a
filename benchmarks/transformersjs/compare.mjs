// edgespec/web against transformers.js in Chromium, on WebAssembly with one thread:
//
//     node benchmarks/transformersjs/compare.mjs PAIR MODELS [--runs 3] [--tokens 64] [--json FILE]
//
// PAIR is SmolLM2 as `edgespec export --for web` writes it, MODELS what write_models.py made of the same
// weights. Needs `npm ci` in runtimes/js and, with --ignore-scripts, here; `npm run build` in runtimes/js; and chromium.
// Each prompt is answered by all ways in turn, greedily, up to the same number of tokens, and the ratios
// are those of the two ways' times for the same prompt. Only tokens after the first call count.

import { execFileSync } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { cpus, loadavg, tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { serve } from "../../examples/web/serve.mjs";

const HERE = dirname(fileURLToPath(import.meta.url));
const PACKAGE = join(HERE, "../../runtimes/js");
const ours = createRequire(join(PACKAGE, "package.json"));
const theirs = createRequire(createRequire(join(HERE, "package.json")).resolve("@huggingface/transformers"));
const { chromium } = ours("playwright-core");
const { build } = ours("esbuild");

const QUESTIONS = [
  "Why is the sky blue?",
  "Write a short story about a cat who finds a key.",
  "List five ways to save water at home.",
  "Explain what a compiler does to a beginner.",
  "What should I pack for a week in the mountains?",
];
const RATIOS = [
  ["plain", "transformers.js"],
  ["plain", "transformers.js, head in 8 bits"],
  ["drafted", "plain"],
  ["drafted", "transformers.js"],
];

async function main() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      runs: { type: "string", default: "3" },
      tokens: { type: "string", default: "64" },
      json: { type: "string" },
    },
  });
  const [pair, models] = positionals.map((folder) => resolve(folder));
  const [runs, maxNewTokens] = [Number(values.runs), Number(values.tokens)];
  const site = await bundled();
  const server = await serve({ "/": site, "/pair/": pair, "/models/": models });
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
    args: ["--no-sandbox"],
  });
  try {
    const environment = environmentOf(browser);
    console.log(JSON.stringify(environment));
    const page = await browser.newPage();
    await page.goto(server.url);
    const { ask, opened, ways } = await openedWays(page);
    console.log(JSON.stringify(opened));
    const prompts = [];
    for (const question of QUESTIONS) {
      const { before, after } = opened.edgespec.promptFormat;
      prompts.push((await ask("transformersjs", { action: "encode", text: `${before}${question}${after}` })).tokens);
    }
    const rows = [];
    for (let run = 0; run < runs; run++) {
      for (const [number, prompt] of prompts.entries()) {
        for (const [way, { worker, draft }] of rotated(Object.entries(ways), run + number)) {
          const { times } = await ask(worker, { action: "generate", prompt, maxNewTokens, draft });
          rows.push({ run, prompt: number, way, ...speedOf(times), load: Number(loadavg()[0].toFixed(1)) });
        }
      }
    }
    report(rows, { environment, opened, tokens: maxNewTokens, questions: QUESTIONS }, values.json);
  } finally {
    await browser.close();
    await server.close();
    rmSync(site, { recursive: true });
  }
}

/** Both workers and their runtimes' files, in a folder of their own. */
async function bundled() {
  const site = mkdtempSync(join(tmpdir(), "edgespec-compare-"));
  writeFileSync(join(site, "index.html"), "<!doctype html><title>comparison</title>");
  const options = {
    outdir: site,
    bundle: true,
    format: "esm",
    target: "es2022",
    conditions: ["onnxruntime-web-use-extern-wasm"],
    logLevel: "error",
  };
  const alias = { "@edgespec/edgespec/web": join(PACKAGE, "dist/web/index.js") };
  await build({
    ...options,
    entryPoints: [join(HERE, "edgespec.worker.js"), join(HERE, "transformersjs.worker.js")],
    alias,
  });
  for (const [name, require] of Object.entries({ edgespec: ours, transformersjs: theirs })) {
    const runtime = dirname(require.resolve("onnxruntime-web"));
    mkdirSync(join(site, `ort-${name}`));
    for (const file of readdirSync(runtime).filter((file) => /^ort-wasm.*\.(mjs|wasm)$/.test(file))) {
      copyFileSync(join(runtime, file), join(site, `ort-${name}`, file));
    }
  }
  return site;
}

/** Opens every way; each is a worker that answers one message with one. */
async function openedWays(page) {
  const ask = async (worker, message) => {
    const answer = await page.evaluate(
      ([worker, message]) =>
        new Promise((answered) => {
          globalThis.workers ??= {};
          const asked = (globalThis.workers[worker] ??= new Worker(`/${worker.split("/")[0]}.worker.js`, {
            type: "module",
          }));
          asked.onmessage = ({ data }) => answered(data);
          asked.onerror = ({ message }) => answered({ failed: message });
          asked.postMessage(message);
        }),
      [worker, message],
    );
    if (answer.failed) throw new Error(`${worker}: ${answer.failed}`);
    return answer;
  };
  const opened = {
    edgespec: await ask("edgespec", { action: "load" }),
    "transformers.js": await ask("transformersjs", { action: "load", folder: "tied" }),
    "transformers.js, head in 8 bits": await ask("transformersjs/head", { action: "load", folder: "untied" }),
  };
  const ways = {
    "transformers.js": { worker: "transformersjs" },
    "transformers.js, head in 8 bits": { worker: "transformersjs/head" },
    plain: { worker: "edgespec", draft: false },
    drafted: { worker: "edgespec", draft: true },
  };
  return { ask, opened, ways };
}

/** Tokens/s after the first call, whose tokens came with it. */
function speedOf(times) {
  const [first, last] = [times[0][1], times.at(-1)[1]];
  const begun = times.findIndex(([, time]) => time > first + 1);
  return {
    tokens: times.length,
    tokensPerS: (1000 * (times.length - begun)) / (last - times[begun - 1][1]),
    ids: times.map(([id]) => id),
  };
}

function report(rows, settings, file) {
  const named = new Map(rows.map((row) => [`${row.run} ${row.prompt} ${row.way}`, row]));
  const speeds = Object.fromEntries(
    [...new Set(rows.map(({ way }) => way))].map((way) => [
      way,
      rounded(median(rows.filter((row) => row.way === way).map((row) => row.tokensPerS))),
    ]),
  );
  const ratios = RATIOS.map(([way, other]) => {
    const all = rows
      .filter((row) => row.way === way)
      .map((row) => row.tokensPerS / named.get(`${row.run} ${row.prompt} ${other}`).tokensPerS);
    return {
      way,
      over: other,
      n: all.length,
      median: rounded(median(all)),
      least: rounded(Math.min(...all)),
      most: rounded(Math.max(...all)),
    };
  });
  const sameTexts = rows
    .filter(({ way }) => way === "drafted")
    .every((row) => String(row.ids) === String(named.get(`${row.run} ${row.prompt} plain`).ids));
  for (const { way, over, n, median, least, most } of ratios)
    console.log(`${way} / ${over}: ${median} (${least} to ${most}, n ${n})`);
  console.log(
    `tokens/s: ${JSON.stringify(speeds)}; texts of drafted and plain are ${sameTexts ? "the same" : "NOT the same"}`,
  );
  const result = {
    ...settings,
    speeds,
    ratios,
    sameTexts,
    rows: rows.map(({ ids, ...row }) => ({ ...row, tokensPerS: rounded(row.tokensPerS) })),
  };
  if (file) writeFileSync(file, `${JSON.stringify(result, null, 1)}\n`);
}

function environmentOf(browser) {
  const versionOf = (require, name) =>
    JSON.parse(readFileSync(join(dirname(require.resolve(name)), "../package.json"), "utf8")).version;
  return {
    machine: `${cpus()[0].model}, ${cpus().length} cores`,
    load: loadavg()[0],
    threads: 1,
    versions: {
      chromium: browser.version(),
      "@huggingface/transformers": versionOf(createRequire(join(HERE, "package.json")), "@huggingface/transformers"),
      "its onnxruntime-web": versionOf(theirs, "onnxruntime-web"),
      "edgespec's onnxruntime-web": versionOf(ours, "onnxruntime-web"),
    },
    commit: execFileSync("git", ["rev-parse", "HEAD"], { cwd: HERE, encoding: "utf8" }).trim(),
    date: new Date().toISOString().slice(0, 10),
  };
}

function rotated(ways, by) {
  const start = by % ways.length;
  return [...ways.slice(start), ...ways.slice(0, start)];
}

function median(values) {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

function rounded(value) {
  return Number(value.toFixed(2));
}

await main();
