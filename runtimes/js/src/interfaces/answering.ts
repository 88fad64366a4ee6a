// What a pair answers in the Vercel AI SDK, whatever the version of its interface. The types here are the parts
// of the published ones that a pair reads and writes; `ai-sdk.ts` and `ai-sdk-6.ts` are checked against the whole.

import { UsageError } from "../errors.js";
import type { Generation } from "../pair/generation.js";
import type { GenerationOptions, Message, PromptInput } from "../pair/options.js";
import { inTurn, type TextMaker } from "./turns.js";

const PROVIDER = "edgespec";
const TEXT = "0"; // the id of the only text block of a stream
const FINISH = { eos: "stop", stop: "stop", max_tokens: "length", capacity: "length" } as const;

/** A part of a message; its other fields are not read. */
interface Part {
  readonly type: string;
  readonly text?: string;
}

type PromptMessage =
  | { readonly role: "system"; readonly content: string }
  | { readonly role: "user" | "assistant" | "tool"; readonly content: readonly Part[] };

/** What is asked of a model. */
export interface Call {
  readonly prompt: readonly PromptMessage[];
  readonly maxOutputTokens?: number | undefined;
  readonly stopSequences?: string[] | undefined;
  readonly abortSignal?: AbortSignal | undefined;
  readonly temperature?: number | undefined;
  readonly topP?: number | undefined;
  readonly topK?: number | undefined;
  readonly seed?: number | undefined;
  readonly presencePenalty?: number | undefined;
  readonly frequencyPenalty?: number | undefined;
  readonly responseFormat?: { readonly type: string } | undefined;
  readonly tools?: readonly unknown[] | undefined;
  readonly reasoning?: string | undefined; // unknown to AI SDK 6
}

interface Warning {
  type: "unsupported";
  feature: string;
}

export interface LanguageModelOptions extends Omit<GenerationOptions, "signal" | "chat" | "logprobs"> {
  /** The model's name in results; that of the exported target by default. */
  readonly modelId?: string;
}

/**
 * The pair's part of a model: everything but the version of the interface.
 *
 * @param options the options of generation where a call says nothing else.
 */
export function answering(pair: TextMaker, options: LanguageModelOptions = {}) {
  const { modelId = pair.manifest.target.source, ...defaults } = options;

  const start = (call: Call) => {
    const prompt = promptOf(call.prompt, pair);
    return inTurn(pair, () => pair.stream(prompt, generationOptions(call, defaults)), call.abortSignal);
  };

  return {
    provider: PROVIDER,
    modelId,
    supportedUrls: {},

    async doGenerate(call: Call) {
      const chunks = start(call);
      let next = await chunks.next();
      while (!next.done) next = await chunks.next();
      const { text } = next.value;
      return {
        content: text === "" ? [] : [{ type: "text" as const, text }],
        ...ending(next.value),
        warnings: warningsOf(call),
        response: { modelId, timestamp: new Date() },
      };
    },

    async doStream(call: Call) {
      return { stream: readable(streamParts(start(call), warningsOf(call), modelId), call.abortSignal) };
    },
  };
}

/** The parts of a stream that a pair makes. */
type StreamPart =
  | { type: "stream-start"; warnings: Warning[] }
  | { type: "response-metadata"; modelId: string; timestamp: Date }
  | { type: "text-start" | "text-end"; id: string }
  | { type: "text-delta"; id: string; delta: string }
  | ({ type: "finish" } & Ending)
  | { type: "error"; error: unknown };

async function* streamParts(
  chunks: ReturnType<typeof inTurn>,
  warnings: Warning[],
  modelId: string,
): AsyncGenerator<StreamPart, void, undefined> {
  yield { type: "stream-start", warnings };
  yield { type: "response-metadata", modelId, timestamp: new Date() };
  yield { type: "text-start", id: TEXT };
  try {
    let next = await chunks.next();
    for (; !next.done; next = await chunks.next()) {
      if (next.value.text !== "") yield { type: "text-delta", id: TEXT, delta: next.value.text };
    }
    yield { type: "text-end", id: TEXT };
    yield { type: "finish", ...ending(next.value) };
  } finally {
    await chunks.return(undefined as never); // where the reader leaves early
  }
}

/** A stream that ends with an error part, or fails with the reason of the signal that aborted it. */
function readable(
  parts: AsyncGenerator<StreamPart, void, undefined>,
  signal: AbortSignal | undefined,
): ReadableStream<StreamPart> {
  return new ReadableStream<StreamPart>(
    {
      async pull(controller) {
        try {
          const next = await parts.next();
          if (next.done) controller.close();
          else controller.enqueue(next.value);
        } catch (error) {
          if (signal?.aborted) throw error;
          controller.enqueue({ type: "error", error });
          controller.close();
        }
      },
      async cancel() {
        await parts.return();
      },
    },
    { highWaterMark: 0 }, // a token is computed when it is asked for
  );
}

type Ending = ReturnType<typeof ending>;

function ending({ finishReason, promptTokens, seed, settings, stats }: Generation) {
  const { drafted, accepted, targetCalls } = stats;
  return {
    usage: {
      inputTokens: { total: promptTokens, noCache: undefined, cacheRead: undefined, cacheWrite: undefined },
      outputTokens: { total: stats.tokens, text: stats.tokens, reasoning: undefined },
    },
    finishReason: { unified: FINISH[finishReason!], raw: finishReason! },
    providerMetadata: { [PROVIDER]: { seed, rule: settings.rule, drafted, accepted, targetCalls } },
  };
}

function generationOptions(call: Call, defaults: GenerationOptions): GenerationOptions {
  const {
    maxOutputTokens: maxNewTokens,
    stopSequences: stop,
    abortSignal: signal,
    temperature,
    topP,
    topK,
    seed,
  } = call;
  const given = { maxNewTokens, stop, signal, temperature, topP, topK, seed };
  return { ...defaults, ...Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined)) };
}

/** A warning for each setting that is given and has no effect. */
function warningsOf(call: Call): Warning[] {
  const { presencePenalty, frequencyPenalty, responseFormat, tools, reasoning = "provider-default" } = call;
  const ignored: Readonly<Record<string, boolean>> = {
    presencePenalty: Boolean(presencePenalty),
    frequencyPenalty: Boolean(frequencyPenalty),
    responseFormat: responseFormat?.type === "json",
    tools: (tools ?? []).length > 0,
    reasoning: reasoning !== "provider-default" && reasoning !== "none",
  };
  const features = Object.keys(ignored).filter((feature) => ignored[feature]);
  return features.map((feature) => ({ type: "unsupported", feature }));
}

/** @throws UsageError: a message has a part that is no text. */
function promptOf(messages: readonly PromptMessage[], pair: TextMaker): PromptInput {
  const texts = messages.map(asMessage);
  const alone = pair.manifest.chat === null && texts.length === 1 && texts[0]!.role === "user";
  return alone ? texts[0]!.content : texts;
}

function asMessage({ role, content }: PromptMessage, index: number): Message {
  if (role === "system") return { role, content };
  const texts = content.map((part) => {
    if (role !== "tool" && part.type === "text") return part.text ?? "";
    if (part.type === "reasoning") return ""; // of another model; an answer is continued without it
    throw new UsageError(
      `message ${index + 1} has a part of type ${part.type}; give text, which is all that this model reads`,
    );
  });
  return { role: role as Message["role"], content: texts.join("") };
}
