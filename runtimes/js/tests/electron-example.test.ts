// Claim: the process of examples/electron answers each message, and a text that is stopped ends there. Electron does
// not run here: of the other files it is tested that they can be built, and that they name the same things.

import assert from "node:assert/strict";
import { EventEmitter, once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
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
  await port.after({ type: "send", text: "word ".repeat(100_000) }, "failed");
  assert.match(port.posted.at(-1)!.message!, /tokens/);
  await port.after({ type: "send", text: "Why?" }, "done");
  assert.equal(port.textOf(), "So it is.");
});

const EXAMPLE = new URL("../../../../examples/electron/", import.meta.url);
const source = (file: string): string => readFileSync(new URL(file, EXAMPLE), "utf8");
const found = (text: string, pattern: RegExp): Set<string> =>
  new Set(Array.from(text.matchAll(pattern), ([, name]) => name!));

test("every script can be built, from the dependencies that its package names", async () => {
  const { dependencies, devDependencies } = JSON.parse(source("package.json"));
  const named = Object.keys({ ...dependencies, ...devDependencies });
  for (const file of ["main.mjs", "pair-process.mjs", "preload.cjs", "window.js"]) {
    const external = named.flatMap((name) => [name, `${name}/*`]);
    const { warnings } = await build({
      entryPoints: [fileURLToPath(new URL(file, EXAMPLE))],
      bundle: true,
      platform: "node",
      format: "esm",
      external,
      write: false,
      logLevel: "silent",
    });
    assert.deepEqual(warnings, []);
  }
});

test("the files that are opened by name are there", () => {
  const main = source("main.mjs");
  const opened = found(main, /join\(HERE, "([^".][^"]*)"\)/g);
  assert.deepEqual(opened, new Set(["preload.cjs", "index.html", "pair-process.mjs"]));
  const scripts = found(source("index.html"), /src="([^"]+)"/g);
  assert.ok(scripts.size > 0);
  for (const file of [...opened, ...scripts, JSON.parse(source("package.json")).main])
    assert.ok(existsSync(new URL(file, EXAMPLE)), file);
});

test("the page uses what the preload script gives it, and both sides speak on one channel", () => {
  const given = found(source("preload.cjs"), /^  (\w+): \(/gm);
  assert.deepEqual(found(source("window.js"), /globalThis\.pair\.(\w+)/g), given);
  const channel = /(?:send|on)\("(pair)"/g;
  assert.deepEqual(found(source("preload.cjs"), channel), new Set(["pair"]));
  assert.match(source("main.mjs"), /ipcMain\.on\("pair"/);
  assert.match(source("main.mjs"), /webContents\.send\("pair"/);
});

test("the page hears every type of message that the processes send", () => {
  const sent = found(["answering.mjs", "pair-process.mjs", "main.mjs"].map(source).join(), /type: "(\w+)"/g);
  const heard = found(source("window.js"), /^  (\w+)(?:\(|:)/gm);
  assert.deepEqual(
    [...sent].filter((type) => !heard.has(type)),
    [],
  );
});
