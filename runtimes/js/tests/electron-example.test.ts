// Claim: the process of examples/electron answers each message, and a text that is stopped ends there.

import assert from "node:assert/strict";
import { EventEmitter, once } from "node:events";
import { test } from "node:test";
// @ts-expect-error: a script of the example, without types
import { answer } from "../../../../examples/electron/answering.mjs";
import { scriptedPair } from "./scripted-pair.js";

interface Message {
  readonly type: string;
  readonly text?: string;
  readonly message?: string;
}

/** Electron's `process.parentPort`, and what was posted to it. */
class Port extends EventEmitter {
  readonly posted: Message[] = [];

  postMessage(message: Message): void {
    this.posted.push(message);
    this.emit(`posted ${message.type}`);
  }

  async after(data: object, type: string): Promise<void> {
    const posted = once(this, `posted ${type}`);
    this.emit("message", { data });
    await posted;
  }

  textOf(): string {
    return this.posted.map(({ text = "" }) => text).join("");
  }
}

function answering(text: string) {
  const port = new Port();
  const { pair, prompts } = scriptedPair(() => text);
  answer(port, pair);
  return { port, prompts };
}

test("says that it is ready, answers in pieces, and counts", async () => {
  const { port } = answering("So it is.");
  await port.after({ type: "send", text: "Why?" }, "done");
  assert.equal(port.posted[0]!.type, "ready");
  assert.equal(port.textOf(), "So it is.");
  assert.equal((port.posted.at(-1) as { tokens?: number }).tokens, "So it is.".length + 1); // and the end-of-text token
});

test("the second message continues the conversation", async () => {
  const { port, prompts } = answering("Because.");
  await port.after({ type: "send", text: "Why?" }, "done");
  await port.after({ type: "send", text: "And?" }, "done");
  assert.deepEqual(prompts, ["<Why?>", "<Why?>Because.<And?>"]);
});

test("a stopped answer ends early, and the next one is whole", async () => {
  const long = "word ".repeat(20);
  const { port } = answering(long);
  await port.after({ type: "send", text: "Why?" }, "chunk");
  await port.after({ type: "stop" }, "stopped");
  const stopped = port.textOf();
  assert.ok(stopped.length < long.length && long.startsWith(stopped));
  await port.after({ type: "send", text: "Why?" }, "done");
  assert.equal(port.textOf(), stopped + long);
});

test("a message that cannot be answered is one sentence, and the process goes on", async () => {
  const { port } = answering("So it is.");
  await port.after({ type: "send", text: "" }, "failed");
  assert.match(port.posted.at(-1)!.message!, /empty/);
  await port.after({ type: "send", text: "Why?" }, "done");
  assert.equal(port.textOf(), "So it is.");
});
