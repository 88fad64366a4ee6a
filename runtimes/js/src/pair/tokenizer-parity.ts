// The JavaScript library of tokenizers, made to give the token ids of the Rust library that wrote the file.
//
// Parts that it reads otherwise are rewritten in the file (`rewritten`) or replaced in the tokenizer (`mend`);
// the rest is refused by name.

import type { Tokenizer } from "@huggingface/tokenizers";
import { charsMap } from "./chars-map.js";

type Part = Readonly<Record<string, unknown>> & { readonly type?: string };
/** A part of the library's tokenizer, whose methods are looked up when they are called. */
interface Made {
  config?: Part;
  [member: string]: unknown;
}

const WORD = "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}\\u200C\\u200D"; // Rust's \w
const PLAIN_TYPES = ["BertPreTokenizer", "ByteLevel", "Metaspace", "Punctuation"];
// GPT-2's, whose \s is Unicode's White_Space; JavaScript's has U+FEFF and lacks U+0085.
const BYTE_LEVEL =
  /'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\p{White_Space}\p{L}\p{N}]+|\p{White_Space}+(?!\P{White_Space})|\p{White_Space}+/gu;

/**
 * The JSON of a tokenizer, with parts that the library reads as the Rust library does.
 *
 * @throws Error: the name of what it does not read.
 */
export function rewritten<Json extends Readonly<Record<string, unknown>>>(json: Json): Json {
  const { added_tokens: added, model, pre_tokenizer: splitting } = json as unknown as Record<string, Part | null>;
  const alone = (added as unknown as readonly Part[] | undefined)?.find((token) => token.single_word);
  if (alone) throw new Error(`the added token ${JSON.stringify(alone.content)} with single_word`);
  if (model?.continuing_subword_prefix && model.type !== "WordPiece")
    throw new Error("BPE with continuing_subword_prefix");
  if (model?.dropout) throw new Error("BPE with dropout");
  return { ...json, pre_tokenizer: splitting ? preTokenizer(splitting) : null };
}

function preTokenizer(part: Part): Part {
  switch (part.type) {
    case "Sequence":
      return { ...part, pretokenizers: (part.pretokenizers as readonly Part[]).map(preTokenizer) };
    case "Digits":
      return split(part.individual_digits ? "\\p{N}" : "\\p{N}+");
    case "WhitespaceSplit":
      return split("\\s+", "Removed");
    case "Whitespace":
      return { ...split(`[${WORD}]+|[^${WORD}\\s]+`, "Removed"), invert: true };
    case "Metaspace": {
      const { replacement = "\u2581" } = part;
      return part.split === false
        ? part
        : { type: "Sequence", pretokenizers: [part, split(`(?=${literal(replacement as string)})`)] };
    }
    case "Split":
      return splitting(part);
    default:
      if (part.type !== undefined && PLAIN_TYPES.includes(part.type)) return part;
      throw new Error(`a pre-tokenizer ${String(part.type)}`);
  }
}

/** A split, whose matches stay alone or are removed. */
function splitting(part: Part): Part {
  const { String: text, Regex: regex } = part.pattern as { readonly String?: string; readonly Regex?: string };
  const pattern = regex ?? literal(text!);
  switch (part.behavior) {
    case "Isolated":
      return split(pattern);
    case "Removed":
      return part.invert ? { ...split(pattern, "Removed"), invert: true } : split(pattern, "Removed");
    case "MergedWithPrevious":
      if (!part.invert) return split(`(?:(?!${pattern})[\\s\\S])*(?:${pattern})`);
      break;
    case "MergedWithNext":
      if (!part.invert) return split(`(?:${pattern})?(?:(?!${pattern})[\\s\\S])+|(?:${pattern})`);
      break;
    case "Contiguous":
      if (!part.invert) return split(`(?:${pattern})+`);
  }
  throw new Error(`a split with the behavior ${String(part.behavior)}${part.invert ? ", inverted" : ""}`);
}

function split(regex: string, behavior = "Isolated"): Part {
  return { type: "Split", pattern: { Regex: regex }, behavior, invert: false };
}

function literal(text: string): string {
  return text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
}

/** Replaces what the library computes otherwise. */
export function mend(tokenizer: Tokenizer): void {
  const { normalizer, pre_tokenizer, decoder, model } = tokenizer as unknown as Record<string, Made | null>;
  for (const part of parts(normalizer, "normalizers")) mendNormalizer(part);
  for (const part of parts(pre_tokenizer, "tokenizers"))
    if (part.config?.type === "ByteLevel") part.pattern = BYTE_LEVEL;
  for (const part of parts(decoder, "decoders"))
    if (part.config?.type === "ByteFallback") part.decode_chain = joinBytes;
  if (model?.config?.type === "Unigram" && model.config.byte_fallback) giveBytes(model);
}

function mendNormalizer(part: Made): void {
  const config = part.config ?? {};
  switch (config.type) {
    case "Precompiled":
      part.normalize = charsMap(config.precompiled_charsmap as string | null);
      break;
    case "Lowercase":
      part.normalize = lowered;
      break;
    case "BertNormalizer":
      if (config.lowercase) {
        part.config = { ...config, lowercase: false, strip_accents: config.strip_accents ?? true };
        const rest = part.normalize as (text: string) => string;
        part.normalize = (text: string) => lowered(rest.call(part, text));
      }
  }
}

/** Each character alone: JavaScript looks at the whole word for a final sigma. */
function lowered(text: string): string {
  return Array.from(text, (one) => one.toLowerCase()).join("");
}

function parts(part: Made | null | undefined, key: string): Made[] {
  if (!part) return [];
  return [part, ...((part[key] as readonly Made[] | undefined) ?? []).flatMap((inner) => parts(inner, key))];
}

/** Texts of runs of tokens such as `<0x0A>`; U+FFFD for each where the whole run is no UTF-8. */
function joinBytes(tokens: string[]): string[] {
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  const texts: string[] = [];
  let bytes: number[] = [];
  const endRun = () => {
    if (bytes.length === 0) return;
    try {
      texts.push(decoder.decode(Uint8Array.from(bytes)));
    } catch {
      texts.push(...bytes.map(() => "\uFFFD"));
    }
    bytes = [];
  };
  for (const token of tokens) {
    const byte = /^<0x([0-9A-Fa-f]{2})>$/.exec(token);
    if (byte) bytes.push(parseInt(byte[1]!, 16));
    else {
      endRun();
      texts.push(token);
    }
  }
  endRun();
  return texts;
}

/** Gives a Unigram model the bytes of unknown pieces, where its vocabulary has a token for each. */
function giveBytes(model: Made): void {
  const known = model.tokens_to_ids as ReadonlyMap<string, number>;
  const pieces = (model.tokenize as (text: string) => string[]).bind(model);
  model.tokenize = (text: string) =>
    joinedUnknown(pieces(text), known).flatMap((piece) => {
      if (known.has(piece)) return [piece];
      const bytes = Array.from(
        new TextEncoder().encode(piece),
        (byte) => `<0x${byte.toString(16).toUpperCase().padStart(2, "0")}>`,
      );
      return bytes.every((byte) => known.has(byte)) ? bytes : [piece];
    });
}

/** Pieces, of which unknown ones that follow each other are one. */
function joinedUnknown(pieces: readonly string[], known: ReadonlyMap<string, number>): string[] {
  const joined: string[] = [];
  for (const piece of pieces) {
    const before = joined.at(-1);
    if (before === undefined || known.has(piece) || known.has(before)) joined.push(piece);
    else joined[joined.length - 1] = before + piece;
  }
  return joined;
}
