// A pair as a language model of the Vercel AI SDK (`LanguageModelV4` of @ai-sdk/provider).

import type {
  LanguageModelV4,
  LanguageModelV4CallOptions,
  LanguageModelV4FinishReason,
  LanguageModelV4GenerateResult,
  LanguageModelV4Message,
  LanguageModelV4StreamPart,
  LanguageModelV4StreamResult,
  LanguageModelV4Usage,
  SharedV4ProviderMetadata,
  SharedV4Warning,
} from "@ai-sdk/provider";
import { UsageError } from "../errors.js";
import type { FinishReason, Generation } from "../pair/generation.js";
import type { GenerationOptions, Message, PromptInput } from "../pair/options.js";
import { inTurn, type TextMaker } from "./turns.js";

const PROVIDER = "edgespec";
const TEXT = "0"; // the id of the only text block of a stream
const FINISH: Readonly<Record<FinishReason, LanguageModelV4FinishReason["unified"]>> = {
  eos: "stop",
  stop: "stop",
  max_tokens: "length",
  capacity: "length",
};

export interface LanguageModelOptions extends Omit<GenerationOptions, "signal" | "chat" | "logprobs"> {
  /** The model's name in results; that of the exported target by default. */
  readonly modelId?: string;
}

/**
 * A pair as the `model` of `generateText` and `streamText`.
 *
 * It reads and writes text; tools, files and JSON schemas are what it has not. Calls at the same time are
 * answered one after the other. A pair without a chat format (translation) takes one message, the user's.
 *
 * @param options the options of generation where a call says nothing else.
 */
export function languageModel(pair: TextMaker, options: LanguageModelOptions = {}): LanguageModelV4 {
  const { modelId = pair.manifest.target.source, ...defaults } = options;

  const start = (call: LanguageModelV4CallOptions) => {
    const prompt = promptOf(call.prompt, pair);
    return inTurn(pair, () => pair.stream(prompt, generationOptions(call, defaults)), call.abortSignal);
  };

  return {
    specificationVersion: "v4",
    provider: PROVIDER,
    modelId,
    supportedUrls: {},

    async doGenerate(call): Promise<LanguageModelV4GenerateResult> {
      const chunks = start(call);
      let next = await chunks.next();
      while (!next.done) next = await chunks.next();
      const { text } = next.value;
      return {
        content: text === "" ? [] : [{ type: "text", text }],
        ...ending(next.value),
        warnings: warningsOf(call),
        response: { modelId, timestamp: new Date() },
      };
    },

    async doStream(call): Promise<LanguageModelV4StreamResult> {
      const parts = streamParts(start(call), warningsOf(call), modelId);
      return { stream: readable(parts, call.abortSignal) };
    },
  };
}

async function* streamParts(
  chunks: ReturnType<typeof inTurn>,
  warnings: SharedV4Warning[],
  modelId: string,
): AsyncGenerator<LanguageModelV4StreamPart, void, undefined> {
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
  parts: AsyncGenerator<LanguageModelV4StreamPart, void, undefined>,
  signal: AbortSignal | undefined,
): ReadableStream<LanguageModelV4StreamPart> {
  return new ReadableStream<LanguageModelV4StreamPart>(
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

interface Ending {
  readonly usage: LanguageModelV4Usage;
  readonly finishReason: LanguageModelV4FinishReason;
  readonly providerMetadata: SharedV4ProviderMetadata;
}

function ending({ finishReason, promptTokens, seed, settings, stats }: Generation): Ending {
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

function generationOptions(call: LanguageModelV4CallOptions, defaults: GenerationOptions): GenerationOptions {
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
function warningsOf(call: LanguageModelV4CallOptions): SharedV4Warning[] {
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
function promptOf(messages: readonly LanguageModelV4Message[], pair: TextMaker): PromptInput {
  const texts = messages.map(asMessage);
  const alone = pair.manifest.chat === null && texts.length === 1 && texts[0]!.role === "user";
  return alone ? texts[0]!.content : texts;
}

function asMessage({ role, content }: LanguageModelV4Message, index: number): Message {
  if (role === "system") return { role, content };
  const texts = content.map((part) => {
    if (role !== "tool" && part.type === "text") return part.text;
    if (part.type === "reasoning") return ""; // of another model; an answer is continued without it
    throw new UsageError(
      `message ${index + 1} has a part of type ${part.type}; give text, which is all that this model reads`,
    );
  });
  return { role: role as Message["role"], content: texts.join("") };
}
