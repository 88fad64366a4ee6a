// Claim: a pair is a language model of the Vercel AI SDK: what it generates, how much, why it ended.

import assert from "node:assert/strict";
import { test } from "node:test";
import type { LanguageModelV4CallOptions, LanguageModelV4Prompt, LanguageModelV4StreamPart } from "@ai-sdk/provider";
import * as ai7 from "ai";
import * as ai6 from "ai-6";
import { languageModel } from "../src/interfaces/ai-sdk.js";
import { languageModel as languageModel6 } from "../src/interfaces/ai-sdk-6.js";
import type { TextMaker } from "../src/interfaces/turns.js";
import { scriptedPair } from "./scripted-pair.js";

const QUESTION: LanguageModelV4Prompt = [{ role: "user", content: [{ type: "text", text: "Why?" }] }];
const CONVERSATION: LanguageModelV4Prompt = [
  { role: "system", content: "Be short." },
  {
    role: "user",
    content: [
      { type: "text", text: "Wh" },
      { type: "text", text: "y?" },
    ],
  },
  {
    role: "assistant",
    content: [
      { type: "reasoning", text: "hm" },
      { type: "text", text: "Because." },
    ],
  },
  { role: "user", content: [{ type: "text", text: "And?" }] },
];

function scripted(answer = "So it is.") {
  const { pair, prompts } = scriptedPair(() => answer);
  return { pair, prompts, model: languageModel(pair) };
}

async function partsOf(stream: ReadableStream<LanguageModelV4StreamPart>): Promise<LanguageModelV4StreamPart[]> {
  const parts = [];
  for await (const part of stream) parts.push(part);
  return parts;
}

const deltas = (parts: readonly LanguageModelV4StreamPart[]): string =>
  parts.map((part) => (part.type === "text-delta" ? part.delta : "")).join("");

test("a text comes with its usage and the reason of its end", async () => {
  const { model, prompts } = scripted();
  const { content, finishReason, usage, warnings, response } = await model.doGenerate({ prompt: CONVERSATION });
  assert.deepEqual(content, [{ type: "text", text: "So it is." }]);
  assert.deepEqual(finishReason, { unified: "stop", raw: "eos" });
  assert.deepEqual(prompts, ["[Be short.]<Why?>Because.<And?>"]);
  assert.equal(usage.inputTokens.total, prompts[0]!.length);
  assert.equal(usage.outputTokens.total, "So it is.".length + 1); // and the end-of-text token
  assert.deepEqual(warnings, []);
  assert.equal(response!.modelId, "scripted");
});

test("a stream has the same text in pieces, between its start and its finish", async () => {
  const { model } = scripted();
  const { stream } = await model.doStream({ prompt: QUESTION });
  const parts = await partsOf(stream);
  assert.equal(deltas(parts), "So it is.");
  assert.ok(parts.filter(({ type }) => type === "text-delta").length > 3);
  const kinds = parts.map(({ type }) => type).filter((type, index, all) => type !== all[index - 1]);
  assert.deepEqual(kinds, ["stream-start", "response-metadata", "text-start", "text-delta", "text-end", "finish"]);
  const { usage, finishReason, providerMetadata } = await model.doGenerate({ prompt: QUESTION });
  const finish = parts.at(-1)!;
  assert.ok(finish.type === "finish");
  assert.deepEqual([finish.usage, finish.finishReason], [usage, finishReason]);
  assert.equal(finish.providerMetadata!.edgespec!.accepted, providerMetadata!.edgespec!.accepted);
});

const SETTINGS: readonly (readonly [Partial<LanguageModelV4CallOptions>, string, string])[] = [
  [{ maxOutputTokens: 4 }, "So i", "length"],
  [{ stopSequences: ["it"] }, "So ", "stop"],
  [{ temperature: 0.7, topK: 5, topP: 0.9, seed: 3 }, "So it is.", "stop"],
];

for (const [settings, text, reason] of SETTINGS) {
  test(`${JSON.stringify(settings)} has its effect`, async () => {
    const { content, finishReason, warnings, providerMetadata } = await scripted().model.doGenerate({
      prompt: QUESTION,
      ...settings,
    });
    assert.deepEqual(content, [{ type: "text", text }]);
    assert.equal(finishReason.unified, reason);
    assert.deepEqual(warnings, []);
    if (settings.seed !== undefined) assert.equal(providerMetadata!.edgespec!.seed, settings.seed);
  });
}

test("what was given for the model is what a call does not say", async () => {
  const { pair } = scripted();
  const model = languageModel(pair, { modelId: "mine", maxNewTokens: 2, seed: 9 });
  const usual = await model.doGenerate({ prompt: QUESTION });
  assert.deepEqual([usual.content, usual.providerMetadata!.edgespec!.seed], [[{ type: "text", text: "So" }], 9]);
  const { content } = await model.doGenerate({ prompt: QUESTION, maxOutputTokens: 3 });
  assert.deepEqual(content, [{ type: "text", text: "So " }]);
  assert.equal(model.modelId, "mine");
});

test("a setting without effect is a warning", async () => {
  const { warnings } = await scripted().model.doGenerate({
    prompt: QUESTION,
    presencePenalty: 0.5,
    frequencyPenalty: 0.5,
    responseFormat: { type: "json" },
    tools: [{ type: "function", name: "f", inputSchema: {} }],
    reasoning: "high",
  });
  const features = ["presencePenalty", "frequencyPenalty", "responseFormat", "tools", "reasoning"];
  assert.deepEqual(
    warnings,
    features.map((feature) => ({ type: "unsupported", feature })),
  );
  const usual = await scripted().model.doGenerate({
    prompt: QUESTION,
    presencePenalty: 0,
    responseFormat: { type: "text" },
    tools: [],
    reasoning: "none",
  });
  assert.deepEqual(usual.warnings, []);
});

test("a file, or a tool's result, is refused", async () => {
  const { model } = scripted();
  const file = { type: "file", mediaType: "image/png", data: { type: "data", data: new Uint8Array(3) } } as const;
  await assert.rejects(model.doGenerate({ prompt: [{ role: "user", content: [file] }] }) as Promise<unknown>, {
    name: "UsageError",
    message: "message 1 has a part of type file; give text, which is all that this model reads",
  });
});

test("a signal ends a text, a stream and the waiting for one, with its own reason", async () => {
  const { model } = scripted("long".repeat(20));
  const controller = new AbortController();
  const { stream } = await model.doStream({ prompt: QUESTION, abortSignal: controller.signal });
  const reader = stream.getReader();
  for (let read = 0; read < 5; read++) await reader.read();
  const waiting = assert.rejects(
    model.doGenerate({ prompt: QUESTION, abortSignal: controller.signal }) as Promise<unknown>,
    /enough/,
  );
  controller.abort(new Error("enough"));
  await waiting;
  await assert.rejects(reader.read(), /enough/);
  const { content } = await model.doGenerate({ prompt: QUESTION, maxOutputTokens: 4 });
  assert.deepEqual(content, [{ type: "text", text: "long" }]);
});

test("texts that are asked for together come one after the other", async () => {
  const { pair } = scriptedPair((prompt) => prompt.toUpperCase());
  const model = languageModel(pair);
  const ask = (text: string) => model.doGenerate({ prompt: [{ role: "user", content: [{ type: "text", text }] }] });
  const texts = await Promise.all(["a", "b", "c"].map(ask));
  assert.deepEqual(
    texts.map(({ content }) => content),
    ["<A>", "<B>", "<C>"].map((text) => [{ type: "text", text }]),
  );
});

test("a stream that is left frees the pair", async () => {
  const { model } = scripted();
  const { stream } = await model.doStream({ prompt: QUESTION });
  for await (const part of stream) if (part.type === "text-delta") break;
  const { content } = await model.doGenerate({ prompt: QUESTION });
  assert.deepEqual(content, [{ type: "text", text: "So it is." }]);
});

test("a failure is an error part, and the next text comes", async () => {
  const { model } = scripted();
  const { stream } = await model.doStream({
    prompt: [{ role: "user", content: [{ type: "text", text: "x".repeat(300) }] }],
  });
  const last = (await partsOf(stream)).at(-1)!;
  assert.ok(last.type === "error" && last.error instanceof Error && last.error.name === "PromptTooLongError");
  assert.equal(deltas(await partsOf((await model.doStream({ prompt: QUESTION })).stream)), "So it is.");
});

test("a translation pair takes the user's text as it is", async () => {
  const { pair, prompts } = scriptedPair(() => "Warum?", { chat: false });
  const { content } = await languageModel(pair).doGenerate({ prompt: QUESTION });
  assert.deepEqual([content, prompts], [[{ type: "text", text: "Warum?" }], ["Why?"]]);
});

// Applications of AI SDK 6 have version 3 of @ai-sdk/provider, whose types these are; here it is version 4.
const model6 = (pair: TextMaker) => languageModel6(pair) as unknown as Exclude<ai6.LanguageModel, string>;

const SDKS = {
  "AI SDK 7": {
    generate: (pair: TextMaker) => ai7.generateText({ model: languageModel(pair), prompt: "Why?", seed: 3 }),
    stream: (pair: TextMaker) => ai7.streamText({ model: languageModel(pair), prompt: "Why?", maxOutputTokens: 4 }),
  },
  "AI SDK 6": {
    generate: (pair: TextMaker) => ai6.generateText({ model: model6(pair), prompt: "Why?", seed: 3 }),
    stream: (pair: TextMaker) => ai6.streamText({ model: model6(pair), prompt: "Why?", maxOutputTokens: 4 }),
  },
};

for (const [name, { generate, stream }] of Object.entries(SDKS)) {
  test(`${name} itself generates and streams`, async () => {
    const { pair, prompts } = scripted();
    const { text, finishReason, usage, warnings, providerMetadata } = await generate(pair);
    assert.deepEqual([text, finishReason, warnings], ["So it is.", "stop", []]);
    assert.deepEqual([prompts, usage.outputTokens], [["<Why?>"], text.length + 1]);
    assert.equal(providerMetadata!.edgespec!.seed, 3);
    const streamed = stream(pair);
    let deltas = "";
    for await (const delta of streamed.textStream) deltas += delta;
    assert.deepEqual([deltas, await streamed.finishReason], ["So i", "length"]);
  });
}
