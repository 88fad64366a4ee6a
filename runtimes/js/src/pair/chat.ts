// A conversation: messages and answers, each answered as if the whole had been asked anew.

import type { Chunk, Generation } from "./generation.js";
import type { GenerationOptions, Message, PromptInput } from "./options.js";
import type { Stream } from "./stream.js";

export interface ChatOptions extends Omit<GenerationOptions, "chat"> {
  /** The system prompt, for models whose chat format takes one. */
  readonly system?: string;
}

/** What answers messages: a `Pair`. */
interface Answering {
  stream(prompt: PromptInput, options?: GenerationOptions): Stream;
}

/**
 * A conversation. What the caches hold of earlier turns is not computed again, and an answer is the same
 * as if it were.
 */
export class Chat {
  readonly #pair: Answering;
  readonly #options: GenerationOptions;
  #messages: readonly Message[];

  constructor(pair: Answering, { system, ...options }: ChatOptions) {
    this.#pair = pair;
    this.#options = options;
    this.#messages = system === undefined ? [] : [{ role: "system", content: system }];
  }

  /** All messages so far; whole answers only. */
  get messages(): readonly Message[] {
    return this.#messages;
  }

  /**
   * Sends a message and returns the stream of its answer. Message and answer become part of the
   * conversation when the answer ends; a stream that is left before that changes nothing.
   *
   * @param options for this answer, in place of the conversation's.
   */
  send(content: string, options: GenerationOptions = {}): ChatStream {
    const messages: readonly Message[] = [...this.#messages, { role: "user", content }];
    const stream = this.#pair.stream(messages, { ...this.#options, ...options });
    return new ChatStream(stream, ({ text }) => {
      this.#messages = [...messages, { role: "assistant", content: text }];
    });
  }
}

/** The stream of an answer, which tells the conversation when it ends. */
export class ChatStream implements AsyncIterableIterator<Chunk, undefined> {
  readonly #stream: Stream;
  readonly #onEnd: (result: Generation) => void;

  constructor(stream: Stream, onEnd: (result: Generation) => void) {
    this.#stream = stream;
    this.#onEnd = onEnd;
  }

  get result(): Generation {
    return this.#stream.result;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  async next(): Promise<IteratorResult<Chunk, undefined>> {
    const next = await this.#stream.next();
    if (next.done && this.result.finishReason !== null) this.#onEnd(this.result);
    return next;
  }

  return(): Promise<IteratorResult<Chunk, undefined>> {
    return this.#stream.return();
  }

  /** Ends the answer, if it has not ended yet. */
  async close(): Promise<void> {
    await this.return();
  }

  /** Generates to the end. */
  async finish(): Promise<Generation> {
    while (!(await this.next()).done);
    return this.result;
  }
}
