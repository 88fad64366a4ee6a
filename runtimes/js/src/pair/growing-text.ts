// The text of the tokens so far, released as soon as no later token can change it.

import { shortened, UsageError } from "../errors.js";
import type { TextCodec } from "./tokenizer.js";

/** The strings that end a text. @throws UsageError: not strings, or an empty one. */
export function stopStrings(stop: string | readonly string[]): readonly string[] {
  const stops: readonly unknown[] = typeof stop === "string" ? [stop] : Array.isArray(stop) ? stop : [stop];
  if (!stops.every((text) => typeof text === "string"))
    throw new UsageError(`stop is ${shortened(stop)}; give a string, or several`);
  if (stops.includes("")) throw new UsageError("a stop string is empty; give at least one character");
  return stops as string[];
}

/** The beginning of a character, and what may be the beginning of a stop string, are held back. */
export class GrowingText {
  readonly #tokens: number[];
  #final: number; // number of tokens whose text is final
  #context = 0; // index of the first token that is decoded again, for the spaces
  #pending = ""; // final text that may begin a stop string
  /** A stop string was found. */
  stopped = false;

  /**
   * @param stop strings that end the text; they are not part of it.
   * @param before tokens of the prompt that the text continues, so that prompt and text together are the
   *   decoding of all tokens. Without them the text stands alone, and a decoder may drop its first space.
   */
  constructor(
    readonly codec: TextCodec,
    readonly stop: readonly string[] = [],
    before: readonly number[] = [],
  ) {
    this.#tokens = this.#lastOf(before);
    this.#final = this.#tokens.length;
  }

  /** The text that becomes final with this token, possibly none. */
  add(token: number): string {
    this.#tokens.push(token);
    return this.#release(this.#decodeNew(false));
  }

  /** The text that was held back, once no token follows. */
  end(): string {
    if (this.stopped) return "";
    const rest = this.#release(this.#decodeNew(true)) + this.#pending;
    this.#pending = "";
    return rest;
  }

  /** The last tokens of a prompt that the text after them depends on: from a whole character on, not spaces alone. */
  #lastOf(before: readonly number[]): number[] {
    for (const count of [16, 256]) {
      const text = this.codec.decode(before.slice(-count));
      if (text.trim() !== "" && !text.startsWith("\uFFFD")) return before.slice(-count);
    }
    return [...before];
  }

  /**
   * The text after the final tokens. A decoder may treat the first token of a text differently (drop a
   * space), so the previous final tokens are decoded again and their text is cut off.
   */
  #decodeNew(last: boolean): string {
    let context = this.codec.decode(this.#tokens.slice(this.#context, this.#final));
    const whole = this.codec.decode(this.#tokens.slice(this.#context));
    if (!whole.startsWith(context)) context = context.replace(/\uFFFD+$/, ""); // the prompt ends inside a character
    const unfinished = whole.endsWith("\uFFFD") || whole.length <= context.length;
    if (unfinished && !last) return "";
    this.#context = this.#final;
    this.#final = this.#tokens.length;
    return whole.slice(context.length);
  }

  #release(added: string): string {
    const text = this.#pending + added;
    const found = this.stop.map((stop) => text.indexOf(stop)).filter((start) => start >= 0);
    if (found.length > 0) {
      this.stopped = true;
      this.#pending = "";
      return text.slice(0, Math.min(...found));
    }
    const held = Math.max(0, ...this.stop.map((stop) => overlap(text, stop)));
    this.#pending = text.slice(text.length - held);
    return text.slice(0, text.length - held);
  }
}

/** How many characters at the end of `text` may be the beginning of `stop`. */
function overlap(text: string, stop: string): number {
  for (let size = Math.min(stop.length - 1, text.length); size > 0; size--) {
    if (text.endsWith(stop.slice(0, size))) return size;
  }
  return 0;
}
