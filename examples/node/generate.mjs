// node generate.mjs PAIR PROMPT [--plain] [--temperature T] [--gamma N] [--tokens N] [--json]
//                               [--target-format F] [--draft-format F] [--threads N]

import { parseArgs } from "node:util";
import { plain, speculate } from "./decode.mjs";
import { openPair } from "./pair.mjs";

function settings() {
  const { values, positionals } = parseArgs({
    allowPositionals: true,
    options: {
      plain: { type: "boolean" },
      json: { type: "boolean" },
      temperature: { type: "string", default: "0" },
      gamma: { type: "string", default: "3" },
      tokens: { type: "string", default: "256" },
      threads: { type: "string", default: "0" },
      "target-format": { type: "string" },
      "draft-format": { type: "string" },
    },
  });
  const number = (name, lowest, whole = true) => {
    const value = Number(values[name]);
    if (value >= lowest && value < Infinity && (!whole || Number.isInteger(value))) return value;
    throw new Error(`--${name} is ${values[name]}; give a ${whole ? "whole " : ""}number from ${lowest}`);
  };
  if (positionals.length !== 2 || !positionals[1]) {
    throw new Error('give a pair and a prompt: node generate.mjs PAIR "PROMPT"');
  }
  return {
    folder: positionals[0],
    prompt: positionals[1],
    json: values.json,
    plain: values.plain,
    loading: {
      targetFormat: values["target-format"],
      draftFormat: values["draft-format"],
      threads: number("threads", 0),
    },
    options: {
      temperature: number("temperature", 0, false),
      gamma: number("gamma", 0),
      maxNewTokens: number("tokens", 1),
    },
  };
}

function encoded({ tokenizer, manifest: { chat } }, prompt) {
  if (!chat) return tokenizer.encode(prompt).ids;
  const message = chat.trims?.includes("user") ? prompt.trim() : prompt;
  return tokenizer.encode(chat.before + message + chat.after, { add_special_tokens: false }).ids;
}

async function main() {
  const { folder, prompt, json, plain: withoutDraft, loading, options } = settings();
  const pair = await openPair(folder, loading);
  if (!withoutDraft && pair.maxGamma === 0) console.error("this target is not known to be row-invariant: decoding without a draft");
  const decode = withoutDraft || !pair.draft || pair.maxGamma === 0 ? plain : speculate;
  const began = performance.now();
  const tokens = [];
  const textOf = () => pair.tokenizer.decode(tokens, { skip_special_tokens: true });
  let [printed, accepted] = ["", 0];
  for await (const { token, drafted } of decode(pair, encoded(pair, prompt), options)) {
    tokens.push(token);
    accepted += drafted;
    const text = textOf();
    if (!json && !text.endsWith("\uFFFD")) {
      process.stdout.write(text.slice(printed.length));
      printed = text;
    }
  }
  const seconds = (performance.now() - began) / 1000;
  const text = textOf();
  if (json) console.log(JSON.stringify({ text, token_ids: tokens, accepted, seconds }));
  else {
    console.log(text.slice(printed.length));
    const speed = (tokens.length / seconds).toFixed(1);
    console.error(`${tokens.length} tokens, ${speed} tokens/s, ${accepted} of them from the draft`);
  }
}

main().catch((error) => {
  console.error(`generate.mjs: ${error.message.split("\n")[0]}`);
  process.exit(1);
});
