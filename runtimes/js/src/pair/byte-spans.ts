// Which bytes of a text each token was made from: tokenizers for JavaScript do not say.
//
// Token names are read in two alphabets: bytes spelled as characters (GPT-2's), and text in which "▁" is
// a space and "<0x0A>" a byte. The one that spells the text is the right one.

import type { Range } from "../core/model.js";

/** A token's name in the vocabulary; its text if it is an added token, else null. */
export interface TokenName {
  readonly name: string;
  readonly text: string | null;
}

/** One range for each token; null where the tokens do not spell the text (it was normalised). */
export function byteSpans(tokens: readonly TokenName[], text: string): Range[] | null {
  const bytes = new TextEncoder().encode(text);
  return spansIn(bytes, tokens, fromByteAlphabet) ?? spansIn(bytes, tokens, fromPieces);
}

function spansIn(
  bytes: Uint8Array,
  tokens: readonly TokenName[],
  spelled: (name: string) => Uint8Array | null,
): Range[] | null {
  const spans: Range[] = [];
  let start = 0;
  for (const { name, text } of tokens) {
    let content = text === null ? spelled(name) : new TextEncoder().encode(text);
    const addedSpace = spans.length === 0 && content?.[0] === 32 && bytes[0] !== 32;
    if (addedSpace) content = content!.subarray(1);
    if (content === null || !content.every((byte, index) => byte === bytes[start + index])) return null;
    spans.push({ start, end: start + content.length });
    start += content.length;
  }
  return start === bytes.length ? spans : null;
}

const BYTES = byteAlphabet();

/** Character to byte, as in GPT-2: printable bytes are themselves, the others follow from 256 on. */
function byteAlphabet(): ReadonlyMap<string, number> {
  const isPrintable = (byte: number) => (byte > 32 && byte < 127) || (byte > 160 && byte !== 173);
  const alphabet = new Map<string, number>();
  for (let byte = 0, others = 256; byte < 256; byte++) {
    alphabet.set(String.fromCodePoint(isPrintable(byte) ? byte : others++), byte);
  }
  return alphabet;
}

function fromByteAlphabet(name: string): Uint8Array | null {
  const bytes = Array.from(name, (character) => BYTES.get(character) ?? -1);
  return bytes.includes(-1) ? null : Uint8Array.from(bytes);
}

function fromPieces(name: string): Uint8Array {
  const byte = /^<0x([0-9A-F]{2})>$/.exec(name);
  if (byte !== null) return Uint8Array.of(parseInt(byte[1]!, 16));
  return new TextEncoder().encode(name.replaceAll("▁", " "));
}
