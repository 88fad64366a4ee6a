// Claim: pairs have the shape of the browser's Prompt API and Translator API, and behave as they say.
//
// The published types (@types/dom-chromium-ai) check the shape: code that is written for them compiles.

import assert from "node:assert/strict";
import { test } from "node:test";
import { promptApi, translatorApi } from "../src/interfaces/built-in-ai.js";
import type { GenerationOptions } from "../src/pair/options.js";
import { scriptedPair } from "./scripted-pair.js";

type PromptModel = Pick<typeof LanguageModel, "availability" | "create">;
type TranslatorModel = Pick<typeof Translator, "availability" | "create">;

const LANGUAGES = { sourceLanguage: "en", targetLanguage: "de" };

/** A model that answers the last question in capitals. */
function scripted(options: GenerationOptions = {}, capacity = 200) {
  const { pair, prompts } = scriptedPair((prompt) => /<([^<>]*)>$/.exec(prompt)![1]!.toUpperCase(), { capacity });
  const model: PromptModel = promptApi(pair, options);
  return { pair, prompts, model };
}

function translation(languages = LANGUAGES) {
  const { pair, prompts } = scriptedPair((text) => `${text} (de)`, { chat: false });
  const model: TranslatorModel = translatorApi(pair, languages);
  return { pair, prompts, model };
}

async function piecesOf(stream: ReadableStream<string>): Promise<string[]> {
  const pieces = [];
  for await (const piece of stream) pieces.push(piece);
  return pieces;
}

// --- the Prompt API -------------------------------------------------------------------------------------

test("a session is a conversation", async () => {
  const { model, prompts } = scripted();
  const session = await model.create({
    initialPrompts: [
      { role: "system", content: "Shout." },
      { role: "user", content: "a" },
      { role: "assistant", content: "A" },
    ],
  });
  assert.equal(await session.prompt("b"), "B");
  assert.equal((await piecesOf(session.promptStreaming("cd"))).join("|"), "C|D");
  assert.deepEqual(prompts, ["[Shout.]<a>A<b>", "[Shout.]<a>A<b>B<cd>"]);
});

test("messages may come in parts, and without an answer yet", async () => {
  const { model, prompts } = scripted();
  const session = await model.create();
  await session.append([
    {
      role: "user",
      content: [
        { type: "text", value: "a" },
        { type: "text", value: "b" },
      ],
    },
  ]);
  await session.prompt([{ role: "user", content: "c" }]);
  assert.deepEqual(prompts, ["<ab\nc>"]);
});

test("prompts that are sent together are answered one after the other, in every session of a pair", async () => {
  const { model, prompts } = scripted();
  const [one, other] = [await model.create(), await model.create()];
  assert.deepEqual(await Promise.all([one.prompt("a"), other.prompt("b"), one.prompt("c")]), ["A", "B", "C"]);
  assert.deepEqual(prompts, ["<a>", "<b>", "<a>A<c>"]);
});

test("a clone goes on by itself", async () => {
  const { model, prompts } = scripted();
  const session = await model.create();
  await session.prompt("a");
  const clone = await session.clone();
  await clone.prompt("b");
  await session.prompt("c");
  assert.deepEqual(prompts.slice(1), ["<a>A<b>", "<a>A<c>"]);
});

test("usage is counted in tokens, and an input's is what it adds", async () => {
  const { model, prompts } = scripted();
  const session = await model.create();
  assert.deepEqual([session.contextUsage, session.contextWindow], [0, 200]);
  await session.prompt("a");
  const adds = await session.measureContextUsage("bcd");
  assert.equal(session.contextUsage + adds, "<a>A<bcd>".length);
  await session.prompt("bcd");
  assert.equal(prompts.at(-1), "<a>A<bcd>");
  assert.deepEqual([session.inputUsage, session.inputQuota], [session.contextUsage, 200]);
});

test("the oldest messages are forgotten where the conversation outgrows the window", async () => {
  const { model, prompts } = scripted({}, 24);
  const session = await model.create({ initialPrompts: [{ role: "system", content: "S" }] });
  let overflows = 0;
  session.oncontextoverflow = () => overflows++;
  for (const question of ["aaaa", "bbbb", "cc"]) await session.prompt(question);
  assert.deepEqual(prompts, ["[S]<aaaa>", "[S]<aaaa>AAAA<bbbb>", "[S]<bbbb>BBBB<cc>"]);
  assert.equal(overflows, 1);
  await assert.rejects(session.prompt("d".repeat(24)), { name: "QuotaExceededError", quota: 24, requested: 29 });
  assert.equal(await session.prompt("e"), "E");
});

test("a signal rejects with its reason and leaves the conversation as it was", async () => {
  const { model, prompts } = scripted();
  const session = await model.create();
  const controller = new AbortController();
  const stream = session.promptStreaming("abcdef", { signal: controller.signal }).getReader();
  assert.equal((await stream.read()).value, "A");
  controller.abort();
  await assert.rejects(stream.read(), { name: "AbortError" });
  await assert.rejects(session.prompt("g", { signal: AbortSignal.abort(new Error("no")) }), /no/);
  await session.prompt("h");
  assert.equal(prompts.at(-1), "<h>");
});

test("a destroyed session ends its answer and takes no other; its pair goes on", async () => {
  const { model } = scripted();
  const session = await model.create();
  const stream = session.promptStreaming("abcdef").getReader();
  await stream.read();
  session.destroy();
  await assert.rejects(stream.read(), { name: "AbortError" });
  await assert.rejects(session.prompt("a"), { name: "InvalidStateError" });
  await assert.rejects(session.clone(), { name: "InvalidStateError" });
  assert.equal(await (await model.create()).prompt("a"), "A");
});

test("sampling is the session's, or the model's", async () => {
  const { model } = scripted({ temperature: 0.5 });
  const settings = async (options?: LanguageModelCreateOptions) => {
    const { temperature, topK } = await model.create(options);
    return [temperature, topK];
  };
  assert.deepEqual(await settings(), [0.5, 0]);
  assert.deepEqual(await settings({ temperature: 0.8, topK: 3 }), [0.8, 3]);
  assert.deepEqual(await settings({ topK: 3 }), [1, 3]);
  assert.deepEqual(await settings({ samplingMode: "most-predictable" }), [0, 0]);
  const both = { samplingMode: "creative", topK: 3 } as unknown as LanguageModelCreateOptions;
  await assert.rejects(model.create(both), { name: "TypeError" });
});

test("what a text model cannot do is refused by the names of the API", async () => {
  const { model } = scripted();
  const image: LanguageModelCreateOptions = { expectedInputs: [{ type: "image" }] };
  assert.equal(await model.availability(image), "unavailable");
  assert.equal(await model.availability({ expectedInputs: [{ type: "text", languages: ["en"] }] }), "available");
  await assert.rejects(model.create(image), { name: "NotSupportedError" });
  const session = await model.create();
  for (const refused of [
    session.prompt([{ role: "user", content: [{ type: "audio", value: new ArrayBuffer(1) }] }]),
    session.prompt([{ role: "assistant", content: "a", prefix: true }]),
    session.prompt("a", { responseConstraint: { type: "number" } }),
  ]) {
    await assert.rejects(refused, { name: "NotSupportedError" });
  }
});

// --- opening --------------------------------------------------------------------------------------------

test("a pair is opened once, at the first session, with progress for all who wait", async () => {
  const { pair } = scripted();
  let opened = 0;
  let release = (): void => {};
  const model: PromptModel = promptApi(async ({ onProgress }) => {
    opened++;
    onProgress({ file: "weights", loaded: 1, total: 2 });
    await new Promise<void>((resolve) => (release = resolve));
    return pair;
  });
  assert.equal(await model.availability(), "downloadable");
  const seen: number[] = [];
  const first = model.create({
    monitor: (monitor) => monitor.addEventListener("downloadprogress", ({ loaded }) => seen.push(loaded)),
  });
  const leaving = new AbortController();
  const left = model.create({ signal: leaving.signal });
  const second = model.create({
    monitor: (monitor) => (monitor.ondownloadprogress = ({ loaded }) => seen.push(loaded)),
  });
  assert.equal(await model.availability(), "downloading");
  leaving.abort(new DOMException("It took too long.", "TimeoutError"));
  await assert.rejects(left, { name: "TimeoutError" });
  release();
  await Promise.all([first, second]);
  assert.deepEqual([opened, await model.availability(), seen], [1, "available", [0, 0.5, 1, 1]]);
});

test("opening that failed is tried again", async () => {
  const { pair } = scripted();
  let opened = 0;
  const model: PromptModel = promptApi(async () => {
    if (opened++ === 0) throw new Error("offline");
    return pair;
  });
  await assert.rejects(model.create(), /offline/);
  assert.equal(await model.availability(), "downloadable");
  assert.equal(await (await model.create()).prompt("a"), "A");
});

// --- the Translator API ---------------------------------------------------------------------------------

test("a translator translates between the pair's languages", async () => {
  const { model, prompts } = translation();
  assert.equal(await model.availability(LANGUAGES), "available");
  const translator = await model.create(LANGUAGES);
  assert.deepEqual([translator.sourceLanguage, translator.targetLanguage], ["en", "de"]);
  assert.deepEqual(await Promise.all([translator.translate("Hello"), translator.translate("Bye")]), [
    "Hello (de)",
    "Bye (de)",
  ]);
  assert.equal((await piecesOf(translator.translateStreaming("No"))).join("|"), "N|o| |(|d|e|)");
  assert.deepEqual(prompts, ["Hello", "Bye", "No"]);
  assert.deepEqual([await translator.measureInputUsage("Hello"), translator.inputQuota], [5, 200]);
});

test("a text of spaces is its own translation", async () => {
  const { model, prompts } = translation();
  const translator = await model.create(LANGUAGES);
  assert.deepEqual([await translator.translate(""), await translator.translate(" \n"), prompts], ["", " \n", []]);
  assert.deepEqual(await piecesOf(translator.translateStreaming(" \n")), [" \n"]);
});

test("other languages are not available", async () => {
  const { model } = translation();
  const other = { sourceLanguage: "de", targetLanguage: "en" };
  assert.equal(await model.availability(other), "unavailable");
  await assert.rejects(model.create(other), { name: "NotSupportedError" });
});

test("a translation that is too long, aborted or destroyed is refused", async () => {
  const { model } = translation();
  const translator = await model.create(LANGUAGES);
  await assert.rejects(translator.translate("a".repeat(300)), { name: "QuotaExceededError" });
  await assert.rejects(translator.translate("a", { signal: AbortSignal.abort() }), { name: "AbortError" });
  const running = translator.translate("a".repeat(50));
  translator.destroy();
  await assert.rejects(running, { name: "AbortError" });
  await assert.rejects(translator.translate("a"), { name: "AbortError" });
});
