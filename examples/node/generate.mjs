// node generate.mjs PAIR PROMPT

import { load } from "@edgespec/edgespec";

const [folder, prompt] = process.argv.slice(2);
try {
  const pair = await load(folder);
  const stream = pair.stream(prompt, { chat: pair.manifest.chat !== null, maxNewTokens: 256 });
  for await (const { text } of stream) process.stdout.write(text);
  const { tokens, accepted, seconds } = stream.result.stats;
  const speed = (tokens / seconds).toFixed(1);
  console.log();
  console.error(`${tokens} tokens, ${speed} tokens/s, ${accepted} of them from the draft`);
  await pair.dispose();
} catch (error) {
  console.error(`generate.mjs: ${error.message}`);
  process.exitCode = 1;
}
