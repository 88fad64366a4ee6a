// A pair as a language model of AI SDK 6, the newest that runs on Node.js 20 (`LanguageModelV3` of @ai-sdk/provider).

import type { LanguageModelV3 } from "@ai-sdk/provider";
import { answering, type LanguageModelOptions } from "./answering.js";
import type { TextMaker } from "./turns.js";

export type { LanguageModelOptions };

/** See `languageModel` of `ai-sdk`. */
export function languageModel(pair: TextMaker, options: LanguageModelOptions = {}): LanguageModelV3 {
  return { specificationVersion: "v3", ...answering(pair, options) };
}
