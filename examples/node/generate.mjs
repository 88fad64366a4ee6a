// node generate.mjs PAIR PROMPT [--plain] [--temperature T] [--gamma N] [--tokens N] [--json]
//                               [--target-format F] [--draft-format F] [--threads N]

import { parseArgs } from "node:util";
import { plain, speculate } from "./decode.mjs";
import { openPair } from "./pair.mjs";

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
const [folder, prompt] = positionals;
if (!prompt) {
  console.error("node generate.mjs PAIR PROMPT");
  process.exit(2);
}

const pair = await openPair(folder, {
  targetFormat: values["target-format"],
  draftFormat: values["draft-format"],
  threads: Number(values.threads),
});
const { chat } = pair.manifest;
const ids = chat
  ? pair.tokenizer.encode(chat.before + prompt + chat.after, { add_special_tokens: false }).ids
  : pair.tokenizer.encode(prompt).ids;
const options = {
  temperature: Number(values.temperature),
  gamma: Number(values.gamma),
  maxNewTokens: Number(values.tokens),
};
const decode = values.plain || !pair.draft ? plain : speculate;

const began = performance.now();
const tokens = [];
let [shown, accepted] = ["", 0];
for await (const { token, drafted } of decode(pair, ids, options)) {
  tokens.push(token);
  accepted += drafted;
  const text = pair.tokenizer.decode(tokens, { skip_special_tokens: true });
  if (!values.json && !text.endsWith("\uFFFD")) {
    process.stdout.write(text.slice(shown.length));
    shown = text;
  }
}
const text = pair.tokenizer.decode(tokens, { skip_special_tokens: true });
const seconds = (performance.now() - began) / 1000;
if (values.json) console.log(JSON.stringify({ text, token_ids: tokens, accepted, seconds }));
else {
  console.log(text.slice(shown.length));
  const speed = (tokens.length / seconds).toFixed(1);
  console.error(`${tokens.length} tokens, ${speed} tokens/s, ${accepted} of them drafted`);
}
