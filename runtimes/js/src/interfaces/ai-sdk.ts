// A pair as a language model of AI SDK 7 (`LanguageModelV4` of @ai-sdk/provider).

import type { LanguageModelV4 } from "@ai-sdk/provider";
import { answering, type LanguageModelOptions } from "./answering.js";
import type { TextMaker } from "./turns.js";

export type { LanguageModelOptions };

/**
 * A pair as the `model` of `generateText` and `streamText`.
 *
 * It reads and writes text; tools, files and JSON schemas are what it has not. Calls at the same time are
 * answered one after the other. A pair without a chat format (translation) takes one message, the user's.
 *
 * @param options the options of generation where a call says nothing else.
 */
export function languageModel(pair: TextMaker, options: LanguageModelOptions = {}): LanguageModelV4 {
  return { specificationVersion: "v4", ...answering(pair, options) };
}
