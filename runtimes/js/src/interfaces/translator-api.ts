// The shape of the browser's Translator API, for translation pairs.

import type { GenerationOptions } from "../pair/options.js";
import { asReadable, joined, pieces } from "./model-texts.js";
import { type Availability, type CreateOptions, type OpenPair, Opening } from "./opening.js";
import type { TextMaker } from "./turns.js";

export interface Languages {
  /** BCP 47 tags, such as "en". */
  readonly sourceLanguage: string;
  readonly targetLanguage: string;
}

/** As the browser's `Translator`: `create` and `availability`. */
export interface TranslatorApi {
  /** "unavailable" for other languages than the pair's. */
  availability(options: Languages): Promise<Availability>;
  /** @throws DOMException "NotSupportedError": other languages; the signal's reason. */
  create(options: Languages & CreateOptions): Promise<TranslatorSession>;
}

/**
 * @param pair a translation pair, or what opens it when the first translator is created.
 * @param languages of the pair; its folder does not name them.
 * @param options of generation, for every translation.
 */
export function translatorApi(
  pair: TextMaker | OpenPair,
  languages: Languages,
  options: GenerationOptions = {},
): TranslatorApi {
  const opening = new Opening(pair);
  const translates = ({ sourceLanguage, targetLanguage }: Languages) =>
    sourceLanguage === languages.sourceLanguage && targetLanguage === languages.targetLanguage;
  return {
    async availability(asked) {
      return translates(asked) ? opening.availability : "unavailable";
    },
    async create(asked) {
      if (!translates(asked)) {
        const { sourceLanguage, targetLanguage } = languages;
        throw new DOMException(
          `this pair translates from ${sourceLanguage} to ${targetLanguage}; ask for these`,
          "NotSupportedError",
        );
      }
      return new TranslatorSession(await opening.pair(asked), languages, options);
    },
  };
}

/** As the browser's `Translator`. Translations that are asked for together are made one after the other. */
export class TranslatorSession {
  readonly sourceLanguage: string;
  readonly targetLanguage: string;
  readonly #pair: TextMaker;
  readonly #options: GenerationOptions;
  readonly #destroyed = new AbortController();

  constructor(pair: TextMaker, { sourceLanguage, targetLanguage }: Languages, options: GenerationOptions) {
    this.sourceLanguage = sourceLanguage;
    this.targetLanguage = targetLanguage;
    this.#pair = pair;
    this.#options = options;
  }

  /** Tokens that a text may have. */
  get inputQuota(): number {
    return this.#pair.capacity;
  }

  async measureInputUsage(input: string): Promise<number> {
    return input === "" ? 0 : this.#pair.encode(input).length;
  }

  /** @throws QuotaExceededError; DOMException "AbortError": destroyed; the signal's reason. */
  async translate(input: string, { signal }: { readonly signal?: AbortSignal } = {}): Promise<string> {
    return joined(this.#translation(input, signal));
  }

  translateStreaming(input: string, { signal }: { readonly signal?: AbortSignal } = {}): ReadableStream<string> {
    return asReadable(this.#translation(input, signal));
  }

  /** Ends its translations; the pair stays, for others. */
  destroy(): void {
    this.#destroyed.abort();
  }

  async *#translation(input: string, signal: AbortSignal | undefined): AsyncGenerator<string> {
    if (input.trim() === "")
      yield input; // spaces are the same in every language
    else
      yield* pieces({
        pair: this.#pair,
        prompt: () => input,
        options: this.#options,
        signals: [signal, this.#destroyed.signal],
      });
  }
}
