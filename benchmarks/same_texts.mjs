// Whether the JavaScript package generates the texts of the Python package: repeats what same_texts.py
// recorded, and writes a record that it compares.
//
//     EDGESPEC_KERNELS=0 python benchmarks/same_texts.py record build/en-de python.json --threads 1
//     node benchmarks/same_texts.mjs build/en-de python.json javascript.json
//     python benchmarks/same_texts.py compare python.json javascript.json
//
// Needs `npm ci && npm run build` in runtimes/js.

import { readFileSync, writeFileSync } from "node:fs";
import { load } from "../runtimes/js/dist/node/index.js";

const SAMPLING = { temperature: 0.8, topP: 0.95 };
const WAYS = {
  "greedy, no draft": { draft: false },
  "greedy, default draft": { draft: true },
  "greedy, draft model, γ 3": { draft: "model", gamma: 3 },
  "sampled, no draft": { draft: false, ...SAMPLING },
  "sampled, draft model, γ 3": { draft: "model", gamma: 3, ...SAMPLING },
  "sampled, lookup, γ 4": { draft: "ngram", gamma: 4, ...SAMPLING },
};

const [folder, recorded, out] = process.argv.slice(2);
const { settings, prompts } = JSON.parse(readFileSync(recorded, "utf8"));
const { tokens: maxNewTokens, threads, target_format: targetFormat } = settings;
const pair = await load(folder, { ...(threads && { threads }), ...(targetFormat && { targetFormat }) });
const chat = pair.manifest.chat !== null;
const texts = {};
for (const [way, options] of Object.entries(WAYS)) {
  texts[way] = [];
  for (const [seed, prompt] of prompts.entries()) {
    const { tokenIds } = await pair.generate(prompt, { chat, maxNewTokens, seed, ...options });
    texts[way].push(tokenIds);
  }
  console.log(`${way}: ${texts[way].flat().length} tokens in ${prompts.length} texts`);
}
writeFileSync(out, `${JSON.stringify({ source: pair.rowInvariance.measured_on, settings, prompts, texts })}\n`);
