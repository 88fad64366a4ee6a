// The shape of the browser's Prompt API (`LanguageModel`), for chat models.

import type { GenerationOptions, Message } from "../pair/options.js";
import { asReadable, joined, pieces, QuotaExceededError } from "./model-texts.js";
import { type Availability, type CreateOptions, type OpenPair, Opening } from "./opening.js";
import { asMessages, merged, type PromptInputMessages } from "./prompt-messages.js";
import type { TextMaker } from "./turns.js";

// The API's names for sampling; 1, its default for a temperature, is the distribution of the model itself.
const TEMPERATURES = { "most-predictable": 0, predictable: 0.4, balanced: 0.7, creative: 1, "most-creative": 1.3 };
const DEFAULT_TEMPERATURE = 1;

export interface SessionOptions {
  readonly temperature?: number;
  readonly topK?: number;
  readonly samplingMode?: keyof typeof TEMPERATURES;
  readonly expectedInputs?: readonly { readonly type: string }[];
  readonly expectedOutputs?: readonly { readonly type: string }[];
  readonly tools?: readonly unknown[];
}

export interface PromptOptions {
  readonly signal?: AbortSignal;
  /** No pair constrains its answers: `NotSupportedError`. */
  readonly responseConstraint?: object;
}

/** As the browser's `LanguageModel`: `create` and `availability`. */
export interface PromptApi {
  /** "unavailable" where something else than text, or a tool, is asked for. */
  availability(options?: SessionOptions): Promise<Availability>;
  /** @throws DOMException "NotSupportedError", TypeError: options that exclude each other; the signal's reason. */
  create(
    options?: SessionOptions & CreateOptions & { readonly initialPrompts?: PromptInputMessages },
  ): Promise<PromptSession>;
}

/**
 * @param pair of a chat model, or what opens it when the first session is created.
 * @param options of generation, for every session; greedy where neither they nor the session samples.
 */
export function promptApi(pair: TextMaker | OpenPair, options: GenerationOptions = {}): PromptApi {
  const opening = new Opening(pair);
  return {
    async availability(asked = {}) {
      return isText(asked) ? opening.availability : "unavailable";
    },
    async create(asked = {}) {
      if (!isText(asked))
        throw new DOMException(
          "this model reads and writes text and calls no tools; ask for that",
          "NotSupportedError",
        );
      const messages = asMessages(asked.initialPrompts ?? []);
      const all = { ...options, ...samplingOf(asked) };
      return new PromptSession(await opening.pair(asked), messages, all);
    },
  };
}

function isText({ expectedInputs = [], expectedOutputs = [], tools = [] }: SessionOptions): boolean {
  return [...expectedInputs, ...expectedOutputs].every(({ type }) => type === "text") && tools.length === 0;
}

function samplingOf({ samplingMode, temperature, topK }: SessionOptions): GenerationOptions {
  const raw = temperature !== undefined || topK !== undefined;
  if (raw && samplingMode !== undefined)
    throw new TypeError("samplingMode is given with temperature or topK; give one of them");
  if (raw) return { temperature: temperature ?? DEFAULT_TEMPERATURE, topK: topK ?? 0 };
  if (samplingMode === undefined) return {};
  const named = TEMPERATURES[samplingMode];
  if (named === undefined)
    throw new TypeError(`samplingMode is ${samplingMode}; give one of: ${Object.keys(TEMPERATURES).join(", ")}`);
  return { temperature: named };
}

/**
 * As the browser's `LanguageModel`: a conversation. Prompts that are sent together are answered one after
 * the other, and the sessions of a pair take turns.
 *
 * Where the conversation outgrows the cache, its oldest messages but the system prompt are forgotten in
 * pairs, and an event "contextoverflow" is dispatched.
 */
export class PromptSession extends EventTarget {
  oncontextoverflow: ((event: Event) => unknown) | null = null;
  readonly #pair: TextMaker;
  readonly #options: GenerationOptions;
  readonly #destroyed = new AbortController();
  #messages: readonly Message[];

  constructor(pair: TextMaker, messages: readonly Message[], options: GenerationOptions) {
    super();
    this.#pair = pair;
    this.#messages = messages;
    this.#options = options;
    this.addEventListener("contextoverflow", (event) => this.oncontextoverflow?.(event));
  }

  /** Tokens that the conversation has; the answers that are forgotten do not count. */
  get contextUsage(): number {
    return this.#length(this.#messages);
  }

  /** Tokens that the cache holds, of the conversation and the next answer. */
  get contextWindow(): number {
    return this.#pair.capacity;
  }

  /** 0 is greedy. */
  get temperature(): number {
    return this.#options.temperature ?? 0;
  }

  /** 0 is off. */
  get topK(): number {
    return this.#options.topK ?? 0;
  }

  /**
   * The answer; input and answer become part of the conversation when it ends.
   *
   * @throws QuotaExceededError: the input alone is too long. DOMException "NotSupportedError": more than
   *   text; "InvalidStateError": destroyed. The signal's reason.
   */
  async prompt(input: string | PromptInputMessages, options: PromptOptions = {}): Promise<string> {
    return joined(this.#answer(input, options));
  }

  promptStreaming(input: string | PromptInputMessages, options: PromptOptions = {}): ReadableStream<string> {
    return asReadable(this.#answer(input, options));
  }

  /** Adds messages that are not answered yet. */
  async append(
    input: string | PromptInputMessages,
    { signal }: { readonly signal?: AbortSignal } = {},
  ): Promise<undefined> {
    signal?.throwIfAborted();
    this.#checkState();
    this.#messages = this.#fitting(merged([...this.#messages, ...asMessages(input)]));
  }

  /** Tokens that an input would add. */
  async measureContextUsage(input: string | PromptInputMessages): Promise<number> {
    return this.#length(merged([...this.#messages, ...asMessages(input)])) - this.contextUsage;
  }

  /** Another session with the same conversation. */
  async clone({ signal }: { readonly signal?: AbortSignal } = {}): Promise<PromptSession> {
    signal?.throwIfAborted();
    this.#checkState();
    return new PromptSession(this.#pair, this.#messages, this.#options);
  }

  /** Ends its answers; the pair stays, for others. */
  destroy(): undefined {
    this.#destroyed.abort(new DOMException("the session was destroyed; create another", "AbortError"));
  }

  // Earlier names, which code still uses.

  get onquotaoverflow(): ((event: Event) => unknown) | null {
    return this.oncontextoverflow;
  }

  set onquotaoverflow(listener: ((event: Event) => unknown) | null) {
    this.oncontextoverflow = listener;
  }

  get inputUsage(): number {
    return this.contextUsage;
  }

  get inputQuota(): number {
    return this.contextWindow;
  }

  measureInputUsage(input: string | PromptInputMessages): Promise<number> {
    return this.measureContextUsage(input);
  }

  #answer(input: string | PromptInputMessages, { signal, responseConstraint }: PromptOptions): AsyncGenerator<string> {
    this.#checkState();
    if (responseConstraint !== undefined) {
      throw new DOMException(
        "a responseConstraint is given, and no answer is constrained; ask in words",
        "NotSupportedError",
      );
    }
    const added = asMessages(input);
    let asked: readonly Message[] = [];
    return pieces({
      pair: this.#pair,
      prompt: () => (asked = this.#fitting(merged([...this.#messages, ...added]))),
      options: this.#options,
      signals: [signal, this.#destroyed.signal],
      onEnd: ({ text }) => {
        this.#messages = [...asked, { role: "assistant", content: text }];
      },
    });
  }

  #checkState(): void {
    if (this.#destroyed.signal.aborted)
      throw new DOMException("the session was destroyed; create another", "InvalidStateError");
  }

  /** The messages without the oldest ones, where the cache does not hold all. */
  #fitting(messages: readonly Message[]): readonly Message[] {
    const system = messages.filter(({ role }) => role === "system");
    let turns = messages.slice(system.length);
    let length = this.#length(messages);
    while (length >= this.contextWindow) {
      if (turns.length <= 2) throw new QuotaExceededError(length, this.contextWindow);
      turns = turns.slice(2);
      length = this.#length([...system, ...turns]);
    }
    if (system.length + turns.length < messages.length) this.dispatchEvent(new Event("contextoverflow"));
    return [...system, ...turns];
  }

  /** Tokens of a conversation, with what the chat format writes before the next answer. */
  #length(messages: readonly Message[]): number {
    if (messages.length === 0) return 0;
    if (messages.at(-1)!.role === "user") return this.#pair.encode(messages).length;
    return this.#pair.encode([...messages, { role: "user", content: "." }]).length - 1; // as if "." were asked next
  }
}
