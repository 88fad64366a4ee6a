// What the pair's process answers. Messages in: send, stop. Messages out: ready, chunk, done,
// stopped, failed.

/**
 * Answers the messages of a port with one conversation of a pair.
 *
 * @param port Electron's `process.parentPort`, or another emitter with `postMessage`.
 * @param pair a loaded pair of a chat model.
 */
export function answer(port, pair) {
  const chat = pair.chat({ maxNewTokens: 256 });
  let stopping = new AbortController();
  const actions = {
    stop: () => stopping.abort(),
    async send({ text }) {
      stopping = new AbortController();
      const stream = chat.send(text, { signal: stopping.signal });
      for await (const { text, drafted } of stream) {
        port.postMessage({ type: "chunk", text, drafted });
        await new Promise(setImmediate); // lets "stop" in
      }
      const { tokens, accepted, seconds } = stream.result.stats;
      port.postMessage({ type: "done", tokens, accepted, tokensPerSecond: tokens / seconds });
    },
  };
  port.on("message", async ({ data: { type, ...given } }) => {
    try {
      await actions[type](given);
    } catch (error) {
      port.postMessage(error.name === "AbortError" ? { type: "stopped" } : { type: "failed", message: error.message });
    }
  });
  port.postMessage({ type: "ready", speculates: pair.speculates });
}
