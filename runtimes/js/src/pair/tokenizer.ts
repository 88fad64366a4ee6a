// The exported tokenizer: texts to token ids and back.

import { Tokenizer } from "@huggingface/tokenizers";
import type { Range } from "../core/model.js";
import { DamagedError, ModelError, UsageError } from "../errors.js";
import { byteSpans } from "./byte-spans.js";
import { mend, rewritten } from "./tokenizer-parity.js";

/** Parts of tokenizer.json that edgespec looks at. */
export interface TokenizerJson {
  readonly added_tokens?: readonly { readonly id: number; readonly content: string; readonly special: boolean }[];
  readonly [part: string]: unknown;
}

/** A special token that is spelled out in a text, and where. */
export interface ControlToken extends Range {
  readonly token: number;
}

export class TextCodec {
  readonly #json: TokenizerJson;
  readonly #tokenizer: Tokenizer;
  readonly #special: ReadonlyMap<string, number>; // name to token id
  readonly #names: RegExp | null; // any of these names
  #plain: Tokenizer | null = null;

  /** @throws DamagedError: the file is no tokenizer. UsageError: the library reads it otherwise than Rust's. */
  constructor(content: Uint8Array, file: string) {
    const json = readJson(content, file);
    try {
      this.#json = rewritten(json);
    } catch (error) {
      throw new UsageError(
        `${file} has ${(error as Error).message}, which JavaScript reads otherwise; run this pair with Python`,
      );
    }
    try {
      this.#tokenizer = newTokenizer(this.#json);
    } catch (error) {
      throw new DamagedError(file, "it is no tokenizer", error);
    }
    const special = (this.#json.added_tokens ?? []).filter((token) => token.special);
    this.#special = new Map(special.map(({ content, id }) => [content.trim(), id]));
    const longestFirst = [...this.#special.keys()].sort((a, b) => b.length - a.length).map(escaped);
    this.#names = longestFirst.length > 0 ? new RegExp(longestFirst.join("|"), "g") : null;
  }

  /** Token ids of a text; special tokens that it spells out are control tokens. */
  encode(text: string, addSpecialTokens: boolean): number[] {
    return encoded(this.#tokenizer, text, addSpecialTokens);
  }

  /** Token ids of a text in which special tokens are ordinary text. */
  encodePlain(text: string): number[] {
    const ordinary = (this.#json.added_tokens ?? []).filter((token) => !token.special);
    this.#plain ??= newTokenizer({ ...this.#json, added_tokens: ordinary });
    return text === "" ? [] : encoded(this.#plain, text, false);
  }

  /** The text of tokens, without special tokens. */
  decode(tokens: readonly number[]): string {
    if (tokens.length === 0) return "";
    return this.#tokenizer.decode([...tokens], { skip_special_tokens: true });
  }

  /** Where a text spells out special tokens. */
  controlTokens(text: string): ControlToken[] {
    const found = this.#names === null ? [] : [...text.matchAll(this.#names)];
    return found.map(({ 0: name, index }) => ({
      token: this.#special.get(name)!,
      start: index,
      end: index + name.length,
    }));
  }

  /** For each token the bytes of the text's UTF-8 that it was made from; null where they are not known. */
  byteSpans(tokens: readonly number[], text: string): Range[] | null {
    const added = new Map((this.#json.added_tokens ?? []).map(({ id, content }) => [id, content]));
    const names = tokens.map((token) => ({
      name: this.#tokenizer.id_to_token(token) ?? "",
      text: added.get(token) ?? null,
    }));
    return byteSpans(names, text);
  }
}

function readJson(content: Uint8Array, file: string): TokenizerJson {
  try {
    const json: unknown = JSON.parse(new TextDecoder().decode(content));
    if (typeof json === "object" && json !== null && "model" in json) return json as TokenizerJson;
  } catch (error) {
    throw new DamagedError(file, "it is no tokenizer", error);
  }
  throw new DamagedError(file, "it is no tokenizer");
}

function newTokenizer(json: TokenizerJson): Tokenizer {
  // Without this option the library removes some spaces from a model's text.
  const tokenizer = new Tokenizer(json, { clean_up_tokenization_spaces: false });
  mend(tokenizer);
  return tokenizer;
}

function encoded(tokenizer: Tokenizer, text: string, addSpecialTokens: boolean): number[] {
  try {
    return tokenizer.encode(text, { add_special_tokens: addSpecialTokens }).ids;
  } catch (error) {
    throw new ModelError(
      `the tokenizer cannot encode this text (${error instanceof Error ? error.message : String(error)}); export the pair again`,
    );
  }
}

function escaped(name: string): string {
  return name.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}
