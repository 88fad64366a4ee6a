// Everything that computes. Messages in: load, generate, stop. Messages out: progress, loaded, begun,
// chunk, done, failed.

import { load } from "@edgespec/edgespec/web";

const WASM = new URL("ort/", self.location.href).href;

let pair = null;
let chat = null; // the conversation, of models that chat
let stopping = new AbortController();

const actions = { load: open, generate, stop: () => stopping.abort() };

self.onmessage = async ({ data: { type, ...given } }) => {
  try {
    await actions[type](given);
  } catch (error) {
    self.postMessage({ type: "failed", name: error.name, message: error.message });
  }
};

async function open({ where }) {
  stopping = new AbortController();
  await pair?.dispose();
  pair = chat = null;
  const began = performance.now();
  const onProgress = (progress) => self.postMessage({ type: "progress", ...progress });
  pair = await load(where, { inPlace: true, wasmPaths: WASM, onProgress, signal: stopping.signal });
  const chats = pair.manifest.chat !== null;
  if (chats) chat = pair.chat({ maxNewTokens: 256 });
  const { speculates, rowInvariance } = pair;
  self.postMessage({
    type: "loaded",
    chats,
    speculates,
    measuredOn: rowInvariance?.measured_on,
    seconds: (performance.now() - began) / 1000,
  });
}

// With the draft and, to compare, plainly first: a conversation takes the last answer.
async function generate({ prompt, compare }) {
  stopping = new AbortController();
  const ways = compare ? [false, true] : [true];
  const texts = [];
  for (const draft of ways) {
    const last = draft === ways.at(-1);
    const options = { draft, signal: stopping.signal };
    const stream =
      chat && last
        ? chat.send(prompt, options)
        : pair.stream(chat ? [...chat.messages, { role: "user", content: prompt }] : prompt, {
            maxNewTokens: 256,
            ...options,
          });
    self.postMessage({ type: "begun", draft });
    for await (const { text, drafted } of stream) {
      self.postMessage({ type: "chunk", draft, text, drafted, stats: stream.result.stats });
      await turn();
    }
    texts.push(stream.result.text);
    self.postMessage({ type: "chunk", draft, text: "", drafted: false, stats: stream.result.stats });
  }
  self.postMessage({ type: "done", same: compare ? texts[0] === texts[1] : null });
}

// Lets a message in: calls of the model follow each other without a gap in which "stop" is heard.
function turn() {
  const { port1, port2 } = new MessageChannel();
  return new Promise((resolve) => {
    port1.onmessage = () => {
      port1.close();
      resolve();
    };
    port2.postMessage(null);
  });
}
