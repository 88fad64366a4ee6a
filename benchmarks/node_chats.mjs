// Answers node_chats.py: one line of JSON in, one out. node node_chats.mjs FOLDER THREADS

import { createInterface } from "node:readline";
import { load } from "../runtimes/js/dist/node/index.js";

const [folder, threads] = process.argv.slice(2);
const pair = await load(folder, { threads: Number(threads) });
console.log(JSON.stringify({ version: process.version, speculates: pair.speculates }));
for await (const line of createInterface({ input: process.stdin })) {
  const { prompt, tokens, draft, gamma } = JSON.parse(line);
  const options = { chat: true, maxNewTokens: tokens, ignoreEos: true, temperature: 0, draft, ...(draft && { gamma }) };
  const { tokenIds, stats } = await pair.generate(prompt, options);
  console.log(JSON.stringify({ tokenIds, stats }));
}
await pair.dispose();
