// What a text's languages change: the tokens of its source, and how its decoder begins.

import { shortened, UsageError } from "../errors.js";
import type { Languages } from "./manifest.js";
import type { GenerationOptions } from "./options.js";

/** How a decoder begins a text; null is the model's own way. */
export interface Beginning {
  readonly start: number | null;
  readonly first: number | null;
}

const OWN: Beginning = { start: null, first: null };

/**
 * The tokens of a text with that of its source's language.
 *
 * @param isText the prompt was given as a text, which has such a token.
 * @throws UsageError: the model does not have the language, or the prompt is no text.
 */
export function fromSource(
  tokens: readonly number[],
  isText: boolean,
  languages: Languages | null | undefined,
  { sourceLanguage }: GenerationOptions,
): readonly number[] {
  if (sourceLanguage === undefined) return tokens;
  const token = tokenOf(languages, sourceLanguage, "sourceLanguage");
  if (!isText) throw new UsageError("sourceLanguage comes with a text to translate; give one as it is");
  return tokens.with(languages!.source_is_last ? -1 : 0, token);
}

/** @throws UsageError: the model does not have the target's language. */
export function beginning(languages: Languages | null | undefined, { targetLanguage }: GenerationOptions): Beginning {
  if (targetLanguage === undefined) return OWN;
  const token = tokenOf(languages, targetLanguage, "targetLanguage");
  if (targetLanguage === languages!.target) return OWN;
  return languages!.target_is_start ? { start: token, first: null } : { start: null, first: token };
}

function tokenOf(languages: Languages | null | undefined, language: string, option: string): number {
  if (!languages)
    throw new UsageError(`${option} is given, and this model has no languages to choose from; leave it out`);
  if (Object.hasOwn(languages.tokens, language)) return languages.tokens[language]!;
  const known = Object.keys(languages.tokens).sort().join(", ");
  throw new UsageError(`${option} is ${shortened(language)}; this model knows ${known}`);
}
