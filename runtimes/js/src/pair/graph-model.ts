// Runs an exported model's graphs: implements `Model` of src/core/model.ts.

import type { Tensor } from "onnxruntime-common";
import type { Model, Range, Rows } from "../core/model.js";
import { isIdOf } from "../core/token-id.js";
import { asRuntimeError, ModelError, PromptTooLongError, UsageError } from "../errors.js";
import type { Folder, Host, Session } from "../host.js";
import { Cache } from "./cache.js";
import { FeatureMemory } from "./feature-memory.js";
import { type Exported, type Manifest, type Variant, variantFiles } from "./manifest.js";
import { type CachedPosition, callEnd, planPrefill, reusableLength } from "./prefill.js";
import type { RecurrentStates, Step } from "./recurrent-states.js";

const DUMMY_TOKEN = 0n;
const SPARE_POSITIONS = 1; // of the cache, which a call may overwrite after its own: docs/reference/folder-format.md

/** Sessions of a variant's graphs, by the graphs' names. */
export type Sessions = Readonly<Record<string, Session>>;

/** Opens all graphs of a variant, which share their weights. @throws RuntimeError, OutOfMemoryError. */
export async function openSessions(folder: Folder, manifest: Manifest, variant: Variant): Promise<Sessions> {
  const sessions: Record<string, Session> = {};
  try {
    const graphs = await folder.readGraphs(Object.values(variant.graphs), variantFiles(manifest, variant).weights);
    for (const [index, name] of Object.keys(variant.graphs).entries()) sessions[name] = await graphs[index]!();
  } catch (error) {
    await Promise.all(Object.values(sessions).map((session) => session.release()));
    throw asRuntimeError("opening the model", error);
  }
  return sessions;
}

/** How a model is called. */
export interface Calls {
  /** Positions that the cache holds. */
  readonly capacity: number;
  /** A call with fewer rows is padded with dummy tokens, which are forgotten again. */
  readonly minRows: number;
  /** Rows per call up to which a position is computed identically; null if not known, as for drafts. */
  readonly maxRows: number | null;
  /** Keep what the target returns at each position for an EAGLE head. */
  readonly keepFeatures?: boolean;
}

/** An exported target or draft that computes one text at a time. */
export class GraphModel implements Model {
  readonly vocabulary: number;
  readonly capacity: number;
  readonly features: FeatureMemory | null;
  seconds = 0;
  protected readonly host: Host;
  protected readonly sessions: Sessions;
  readonly #exported: Exported;
  readonly #calls: Calls;
  readonly #cache: Cache;
  readonly #logits = new Map<number, Tensor>(); // by rows; where the host writes into them
  #cached: CachedPosition[] = [];
  #cross: Readonly<Record<string, Tensor>> = {};
  #encoderStates: Tensor | null = null;
  #recurrent: RecurrentStates | null = null;

  constructor(host: Host, exported: Exported, variant: Variant, sessions: Sessions, calls: Calls) {
    this.host = host;
    this.sessions = sessions;
    this.vocabulary = exported.vocab_size;
    this.capacity = calls.capacity;
    this.features = calls.keepFeatures ? new FeatureMemory(exported.features ?? 0) : null;
    this.#exported = exported;
    this.#calls = calls;
    this.#cache = new Cache(host, exported, variant.cache_format);
  }

  get length(): number {
    return this.#cached.length;
  }

  get validLength(): number {
    return this.length;
  }

  /** float32 [source length, features]: what the encoder returned of the latest source for a draft that reads it. */
  get encoderStates(): Tensor | null {
    return this.#encoderStates;
  }

  /** What a position of the cache was computed from: the token id of a target. */
  cachedKey(position: number): string {
    return this.#cached[position]?.key ?? "";
  }

  rewind(length: number): void {
    if (!(length >= 0 && length <= this.length)) {
      throw new ModelError(`cannot rewind to ${length} from ${this.length} positions`);
    }
    this.#cached.length = length;
    this.#recurrent?.rewind(length);
  }

  async prefill(prompt: readonly number[], assistantSpans: readonly Range[] | null = null): Promise<number> {
    this.#checkPrompt(prompt);
    const start = this.#exported.start_token;
    if (start !== null) {
      await this.#encode(prompt);
      return start;
    }
    const known = prompt.slice(0, -1);
    const plan = planPrefill(known.length, assistantSpans ?? [], this.#calls.maxRows !== null);
    const wanted = known.map((token, index) => ({ key: this.positionKey(token, index), call: plan[index]! }));
    this.rewind(assistantSpans === null ? 0 : reusableLength(this.#cached, wanted));
    while (this.length < known.length) {
      const end = callEnd(this.length, plan, this.#calls.maxRows ?? 1);
      await this.#run(known.slice(this.length, end), true);
      this.#cached.push(...wanted.slice(this.length, end));
    }
    return prompt.at(-1)!;
  }

  async score(tokens: readonly number[]): Promise<Rows> {
    const room = this.capacity - this.length;
    if (!(tokens.length > 0 && tokens.length <= room)) {
      throw new ModelError(
        `asked to score ${tokens.length} positions with room for ${room} of ${this.capacity}; load the pair with more capacity`,
      );
    }
    const logits = await this.#run(tokens, false);
    for (const token of tokens) this.#cached.push({ key: String(token), call: null });
    return tokens.map((_, row) => logits.subarray(row * this.vocabulary, (row + 1) * this.vocabulary));
  }

  /** Frees the cache; the sessions stay. */
  freeCache(): void {
    this.rewind(0);
    for (const tensor of this.#logits.values()) tensor.dispose();
    this.#logits.clear();
    this.#cache.dispose();
    this.#recurrent?.dispose();
    this.#recurrent = null;
    this.#disposeCross();
  }

  async dispose(): Promise<void> {
    this.freeCache();
    await Promise.all(Object.values(this.sessions).map((session) => session.release()));
  }

  /** The `CachedPosition.key` of a position of a prompt. */
  protected positionKey(token: number, _position: number): string {
    return String(token);
  }

  /** What the encoder takes. */
  protected encoderFeeds(prompt: readonly number[]): Readonly<Record<string, Tensor>> {
    return { tokens: this.#int64(prompt) };
  }

  /** Hidden states that a call takes; most models take none. */
  protected async states(_count: number): Promise<Readonly<Record<string, Tensor>>> {
    return {};
  }

  /** Names of hidden states that a call returns. */
  protected stateNames(): readonly string[] {
    return this.features === null ? [] : ["features"];
  }

  /** Keeps what later calls, or an EAGLE head, need of a call's first `count` rows. */
  protected async storeStates(outputs: Readonly<Record<string, Tensor>>, count: number): Promise<void> {
    if (this.features === null) return;
    const values = (await outputs.features!.getData(true)) as Float32Array;
    this.features.write(values, this.length, count);
    outputs.features!.dispose();
  }

  /** Runs a graph; its time counts, and its failures become errors of this package. */
  protected async timed<T>(run: () => Promise<T>): Promise<T> {
    const began = performance.now();
    try {
      return await run();
    } catch (error) {
      throw asRuntimeError("a call of the model", error);
    } finally {
      this.seconds += (performance.now() - began) / 1000;
    }
  }

  async #encode(prompt: readonly number[]): Promise<void> {
    this.rewind(0);
    this.#disposeCross();
    const { encoder } = this.sessions;
    if (encoder === undefined) return; // an EAGLE head, whose target reads the source
    const feeds = this.encoderFeeds(prompt);
    const fetches = Object.fromEntries(encoder.outputNames.map((name) => [name, null]));
    const { features, ...cross } = await this.timed(() => encoder.run(feeds, fetches));
    this.#cross = cross;
    this.#encoderStates = features ?? null;
  }

  #disposeCross(): void {
    for (const tensor of Object.values(this.#cross)) tensor.dispose();
    this.#cross = {};
    this.#encoderStates?.dispose();
    this.#encoderStates = null;
  }

  /** One call: its logits, one row for each token, or one row at all in a prefill. */
  async #run(tokens: readonly number[], prefill: boolean): Promise<Float32Array> {
    const rows = Math.max(tokens.length, this.#calls.minRows);
    const step = await this.#step(rows, tokens.length);
    const states = await this.states(tokens.length);
    return this.timed(async () => {
      await this.#cache.reserve(this.length, this.length + rows + SPARE_POSITIONS);
      const ofCall = {
        ...states,
        tokens: this.#int64(tokens, rows),
        past_length: this.#int64([this.length]),
        skip: this.#int64([prefill ? rows - 1 : 0]),
        ...(step && { state_steps: this.#int64([0, 0, 0, 0, step.source.length, step.kept], 6, [1, 6]) }),
      };
      const feeds: Record<string, Tensor> = { ...this.#cross, ...ofCall };
      const fetches: Record<string, Tensor | null> = { logits: this.#logitsOf(prefill ? 1 : rows) };
      for (const name of this.stateNames()) fetches[name] = null;
      this.#cache.bind(feeds, fetches);
      if (step) this.#recurrent!.begin(step, feeds, fetches);
      const outputs = await this.sessions.decoder!.run(feeds, fetches);
      if (step) this.#recurrent!.end(step);
      for (const tensor of Object.values(ofCall)) tensor.dispose();
      await this.#cache.take(outputs);
      await this.storeStates(outputs, tokens.length);
      return (await outputs.logits!.getData(true)) as Float32Array;
    });
  }

  /** How a call takes the states of recurrent layers; null without such. */
  async #step(rows: number, count: number): Promise<Step | null> {
    const { states } = this.#exported;
    if (!states?.length) return null;
    this.#recurrent ??= new (await import("./recurrent-states.js")).RecurrentStates(this.host, states);
    return this.#recurrent.restored(this.#cached, this.#calls.maxRows ?? 1, rows, count, (tokens) =>
      this.#run(tokens, true),
    );
  }

  /** Where a call's logits go, float32 [rows, vocabulary], until the next one; null: wherever the host puts them. */
  #logitsOf(rows: number): Tensor | null {
    if (!this.host.writesOutputs) return null;
    const known = this.#logits.get(rows);
    if (known !== undefined) return known;
    const made = this.host.tensor("float32", new Float32Array(rows * this.vocabulary), [rows, this.vocabulary]);
    this.#logits.set(rows, made);
    return made;
  }

  #int64(numbers: readonly number[], count = numbers.length, dims = [count]): Tensor {
    const data = new BigInt64Array(count).fill(DUMMY_TOKEN);
    for (const [index, number] of numbers.entries()) data[index] = BigInt(number);
    return this.host.tensor("int64", data, dims);
  }

  #checkPrompt(prompt: readonly number[]): void {
    if (prompt.length === 0) throw new UsageError("the prompt is empty; give at least one token");
    if (prompt.length > this.capacity) throw new PromptTooLongError(prompt.length, this.capacity);
    const size = this.#exported.input_vocab_size ?? this.vocabulary;
    const isId = isIdOf(size);
    const wrong = prompt.find((token) => !isId(token));
    if (wrong !== undefined) throw new UsageError(`token ${wrong} is outside the model's ${size} tokens`);
  }
}
