// A real `Pair` over a model that follows a script: it answers a prompt's text with another text.

import { Costs } from "../src/core/cost-model.js";
import type { Clock } from "../src/core/measured-costs.js";
import type { Model, Rows } from "../src/core/model.js";
import { PromptTooLongError } from "../src/errors.js";
import { SharedTokens } from "../src/drafters/vocabulary-map.js";
import type { GraphModel } from "../src/pair/graph-model.js";
import type { Manifest } from "../src/pair/manifest.js";
import { Pair } from "../src/pair/pair.js";
import { RoundClock } from "../src/pair/round-clock.js";
import type { TextCodec } from "../src/pair/tokenizer.js";

const VOCABULARY = 256; // tokens are bytes
const END = 0;
const COSTS = { lookup: new Costs([1, 1.1, 1.2, 1.3], 0), model: new Costs([1, 1.1, 1.2, 1.3], 0.2) };
const CHAT = { before: "<", after: ">", before_answer: ">", between: "<", system: "[", after_system: "]<" };

const bytes = (text: string): number[] => [...new TextEncoder().encode(text)];
const text = (tokens: readonly number[]): string =>
  new TextDecoder().decode(Uint8Array.from(tokens.filter((token) => token !== END)));

const CODEC = {
  encode: bytes,
  encodePlain: bytes,
  decode: text,
  controlTokens: () => [],
  byteSpans: () => null,
} as Pick<TextCodec, keyof TextCodec> as TextCodec;

/** Every call takes a turn of the event loop, as a runtime's does. */
class ScriptedModel implements Model {
  readonly vocabulary = VOCABULARY;
  readonly seconds = 0;
  readonly prompts: string[] = [];
  disposed = false;
  #cache: number[] = [];
  #start = 0;
  #answer: readonly number[] = [];

  constructor(
    readonly answer: (prompt: string) => string,
    readonly capacity: number,
  ) {}

  get length(): number {
    return this.#cache.length;
  }

  get validLength(): number {
    return this.length;
  }

  async prefill(prompt: readonly number[]): Promise<number> {
    this.prompts.push(text(prompt));
    this.#answer = bytes(this.answer(text(prompt)));
    this.#cache = prompt.slice(0, -1);
    this.#start = prompt.length;
    if (prompt.length > this.capacity) throw new PromptTooLongError(prompt.length, this.capacity);
    return prompt.at(-1)!;
  }

  async score(tokens: readonly number[]): Promise<Rows> {
    await new Promise((resolve) => setImmediate(resolve));
    return tokens.map((token) => {
      this.#cache.push(token);
      const next = this.#answer[this.length - this.#start] ?? END;
      return Float32Array.from({ length: VOCABULARY }, (_, index) => (index === next ? 50 : 0));
    });
  }

  rewind(length: number): void {
    this.#cache.length = length;
  }

  async dispose(): Promise<void> {
    this.disposed = true;
  }
}

export interface Scripted {
  readonly pair: Pair;
  /** The prompts that were read, in the chat format "[system]<question>answer<question>". */
  readonly prompts: readonly string[];
}

export interface ScriptedOptions {
  readonly capacity?: number;
  /** Whether the model has a chat format. */
  readonly chat?: boolean;
  /** Rounds are timed by it; without one, costs stay. */
  readonly clock?: Clock;
}

export function scriptedPair(
  answer: (prompt: string) => string,
  { capacity = 200, chat = true, clock }: ScriptedOptions = {},
): Scripted {
  const model = new ScriptedModel(answer, capacity);
  const pair = new Pair({
    manifest: {
      chat: chat ? CHAT : null,
      eos_token_ids: [END],
      files: {},
      target: { source: "scripted" },
    } as unknown as Manifest,
    codec: CODEC,
    target: model as unknown as GraphModel,
    draft: null,
    vocabulary: new SharedTokens(VOCABULARY),
    costs: COSTS,
    clock: clock === undefined ? null : new RoundClock(COSTS, null, clock),
    formats: { target: "fp32", draft: null },
    rowInvariance: null,
    allowInexact: true,
  });
  return { pair, prompts: model.prompts };
}
