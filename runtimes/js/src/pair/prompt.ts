// Prompts as token ids: a text, token ids, or the messages of a conversation.

import type { Range } from "../core/model.js";
import { shortened, UsageError } from "../errors.js";
import { chatText, checkText, withOptions, type ChatText, type TemplateOptions } from "./chat-format.js";
import type { Manifest } from "./manifest.js";
import type { Message, PromptInput } from "./options.js";
import type { ControlToken, TextCodec } from "./tokenizer.js";

/** Token ids that a model continues. */
export interface Prompt {
  /** At least one. */
  readonly tokens: readonly number[];
  /**
   * The positions of a conversation's earlier answers, which a model computes as if it had just
   * generated them. Null if the prompt is no conversation.
   */
  readonly assistantSpans: readonly Range[] | null;
  /** Its text goes on in what is generated, which is no answer of its own. */
  readonly isContinued: boolean;
}

/** Token ids, and for each the bytes of the text that it was made from; null where not known. */
interface Encoded {
  readonly tokens: readonly number[];
  readonly spans: readonly Range[] | null;
}

/**
 * Makes token ids of what a caller gives.
 *
 * Special tokens that are spelled out in a message are ordinary text: a user who types "<|im_end|>" must
 * not end his own turn (docs/decisions/0020). In a plain text they are control tokens, so that a caller
 * can write a chat format himself.
 */
export class PromptEncoder {
  constructor(
    readonly codec: TextCodec,
    readonly manifest: Pick<Manifest, "chat" | "files">,
  ) {}

  /**
   * @param chat put the chat format around a text; by default if the model has one. Messages always have it, token
   *   ids never.
   * @param options values of the chat template by name.
   * @throws UsageError: it is something else, empty or no Unicode, or the model does not chat.
   */
  encode(given: PromptInput, chat?: boolean, options: TemplateOptions = {}): Prompt {
    if (typeof given === "string") {
      checkText(given, "the prompt");
      // A model whose template only Jinja can write is refused below, not continued in silence.
      if (!(chat ?? (this.manifest.chat || "chat_template.json" in this.manifest.files)))
        return { tokens: this.codec.encode(given, true), assistantSpans: null, isContinued: true };
      return {
        tokens: this.#conversation([{ role: "user", content: given }], options).tokens,
        assistantSpans: null,
        isContinued: false,
      };
    }
    if (!Array.isArray(given))
      throw new UsageError(`the prompt is ${shortened(given)}; give text, token ids, or chat messages`);
    if (given.length === 0) throw new UsageError("the prompt is empty; give at least one token");
    if (given.some((part) => typeof part === "object")) return this.#conversation(given as Message[], options);
    const wrong: unknown = given.find((token) => !Number.isInteger(token));
    if (wrong !== undefined) throw new UsageError(`the prompt holds ${shortened(wrong)}; give one text, or token ids`);
    return { tokens: given as number[], assistantSpans: null, isContinued: true };
  }

  #conversation(messages: readonly Message[], options: TemplateOptions): Prompt {
    const format = this.manifest.chat;
    if (format === null) {
      throw new UsageError("this model has no chat format; give a text and chat: false");
    }
    const chat = chatText(withOptions(format, options), messages);
    const { tokens, spans } = this.#encodeChat(chat);
    return {
      tokens,
      assistantSpans:
        spans &&
        positions(
          chat.assistantSpans.map((answer) => inBytes(chat.text, answer)),
          spans,
        ),
      isContinued: false,
    };
  }

  /** The whole text in one piece, unless a message spells out a special token. */
  #encodeChat(chat: ChatText): Encoded {
    const spelledOut = this.codec
      .controlTokens(chat.text)
      .some(({ start, end }) => chat.contents.some((part) => start < part.end && end > part.start));
    if (spelledOut) return this.#encodePieces(chat);
    const tokens = this.codec.encode(chat.text, false);
    return { tokens, spans: this.codec.byteSpans(tokens, chat.text) };
  }

  /** Special tokens of the chat format as such, and all text between them as ordinary text. */
  #encodePieces(chat: ChatText): Encoded {
    const tokens: number[] = [];
    const spans: Range[] = [];
    let known = true;
    const addText = (start: number, end: number) => {
      const text = chat.text.slice(start, end);
      const piece = this.codec.encodePlain(text);
      const found = this.codec.byteSpans(piece, text);
      known &&= found !== null;
      tokens.push(...piece);
      spans.push(...(found ?? []).map((span) => moved(span, bytesBefore(chat.text, start))));
    };
    let done = 0;
    for (const { token, start, end } of this.#ownControlTokens(chat)) {
      addText(done, start);
      tokens.push(token);
      spans.push(inBytes(chat.text, { start, end }));
      done = end;
    }
    addText(done, chat.text.length);
    return { tokens, spans: known ? spans : null };
  }

  /** The special tokens that the chat format itself writes. */
  #ownControlTokens(chat: ChatText): ControlToken[] {
    const starts = [0, ...chat.contents.map(({ end }) => end)];
    const ends = [...chat.contents.map(({ start }) => start), chat.text.length];
    return starts.flatMap((start, index) =>
      this.codec
        .controlTokens(chat.text.slice(start, ends[index]))
        .map((found) => ({ token: found.token, ...moved(found, start) })),
    );
  }
}

function bytesBefore(text: string, index: number): number {
  return new TextEncoder().encode(text.slice(0, index)).length;
}

function inBytes(text: string, { start, end }: Range): Range {
  return { start: bytesBefore(text, start), end: bytesBefore(text, end) };
}

function moved({ start, end }: Range, by: number): Range {
  return { start: start + by, end: end + by };
}

/**
 * The positions that were scored while these answers were generated.
 *
 * They begin one before an answer's first token: the prompt's last token was scored to draw that one,
 * even if the answer is empty. A token across the border belongs to no answer.
 */
function positions(assistantSpans: readonly Range[], spans: readonly Range[]): Range[] {
  const found: Range[] = [];
  for (const answer of assistantSpans) {
    const free = found.at(-1)?.end ?? 0;
    const first = Math.max(spans.filter(({ start }) => start < answer.start).length, free + 1);
    const end = Math.max(first, spans.filter((span) => span.end <= answer.end).length);
    found.push({ start: first - 1, end });
  }
  return found;
}
