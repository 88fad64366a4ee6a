// A loaded pair: the API that applications embed.

import { type Decoding, plain, speculate } from "../core/decode.js";
import type { Costs } from "../core/cost-model.js";
import type { Drafter } from "../core/draft.js";
import { Coupled, Seeded } from "../core/randomness.js";
import { isGreedy, processorOf, samplingOf } from "../core/sampling.js";
import { RULES, type RuleName } from "../core/verification.js";
import {
  DRAFTER_NAMES,
  type DrafterName,
  type DrafterSetup,
  type Drafting,
  namedDrafter,
  ownCost,
  ownDrafter,
} from "../drafters/registry.js";
import { OwnDrafter } from "../drafters/own-drafter.js";
import type { Vocabulary } from "../drafters/vocabulary-map.js";
import { BusyError, DisposedError, NotRowInvariantError, shortened, UsageError } from "../errors.js";
import { Chat, type ChatOptions } from "./chat.js";
import type { TemplateOptions } from "./chat-format.js";
import { type Generation, newStats } from "./generation.js";
import type { GraphModel } from "./graph-model.js";
import { GrowingText, stopStrings } from "./growing-text.js";
import type { Manifest } from "./manifest.js";
import type { RowInvariance } from "./records.js";
import type { GenerationOptions, PromptInput } from "./options.js";
import { PromptEncoder } from "./prompt.js";
import type { RoundClock } from "./round-clock.js";
import { StopCondition } from "./stop-condition.js";
import { Stream } from "./stream.js";
import type { TextCodec } from "./tokenizer.js";
import { beginning, fromSource } from "./translation.js";

/** What a pair is made of; `load` makes it. */
export interface PairParts {
  readonly manifest: Manifest;
  readonly codec: TextCodec;
  readonly target: GraphModel;
  readonly draft: GraphModel | null;
  readonly vocabulary: Vocabulary;
  /** Of rounds with n-gram lookup and with the draft model: as given, or until rounds were timed. */
  readonly costs: { readonly lookup: Costs; readonly model: Costs };
  /** Times rounds for the costs of γ "auto"; null goes by `costs`. */
  readonly clock: RoundClock | null;
  readonly formats: { readonly target: string; readonly draft: string | null };
  /** What was measured of the target here; null if it was not. */
  readonly rowInvariance: RowInvariance | null;
  readonly allowInexact: boolean;
}

/** A target, perhaps a draft, and their tokenizer. It makes one text at a time. */
export class Pair {
  readonly #parts: PairParts;
  readonly #encoder: PromptEncoder;
  #state: "free" | "busy" | "disposed" = "free";

  constructor(parts: PairParts) {
    this.#parts = parts;
    this.#encoder = new PromptEncoder(parts.codec, parts.manifest);
  }

  /** What the folder says about itself. */
  get manifest(): Manifest {
    return this.#parts.manifest;
  }

  /** What was measured of the target on this machine; null if it was not (`allowInexact`). */
  get rowInvariance(): RowInvariance | null {
    return this.#parts.rowInvariance;
  }

  /** Whether it drafts: the target verifies exactly here, or `allowInexact` was given. */
  get speculates(): boolean {
    return this.#parts.allowInexact || this.rowInvariance?.is_row_invariant === true;
  }

  /** Positions that the caches hold: of the prompt, or for translation of the text, and of the answer. */
  get capacity(): number {
    return this.#parts.target.capacity;
  }

  /** Generates to the end. */
  async generate(prompt: PromptInput, options: GenerationOptions = {}): Promise<Generation> {
    return this.stream(prompt, options).finish();
  }

  /**
   * Starts a generation and returns an iterator over its tokens.
   *
   * @throws UsageError: an argument is out of range. PromptTooLongError and BusyError come with the first
   *   token, and so does AbortedError.
   */
  stream(prompt: PromptInput, options: GenerationOptions = {}): Stream {
    const { manifest, target, codec, rowInvariance } = this.#parts;
    const { maxNewTokens = null, gamma = "auto", logprobs = false, signal = null } = options;
    checkMaxNewTokens(maxNewTokens);
    const sampling = samplingOf(options);
    const kind = this.#draftKind(options.draft ?? true);
    const encoded = this.#encoder.encode(prompt, options.chat, options.chatTemplateKwargs);
    const isText = typeof prompt === "string" && encoded.isContinued;
    const given = { ...encoded, tokens: fromSource(encoded.tokens, isText, manifest.languages, options) };
    const assistantSpans = rowInvariance?.is_row_invariant ? given.assistantSpans : null;
    const rule = ruleName(options.rule, kind, isGreedy(sampling));
    const randomness = rule === "coupled" ? new Coupled(options.seed, given.tokens.length) : new Seeded(options.seed);
    const lastTokens = options.ignoreEos ? [] : manifest.eos_token_ids;
    const before = given.isContinued && manifest.target.start_token === null ? given.tokens : [];
    const stop = new StopCondition(new GrowingText(codec, stopStrings(options.stop ?? []), before), lastTokens);
    const process = processorOf(sampling);
    const followsClock = gamma === "auto" && (rule === "coupled" || isGreedy(sampling)); // where no text depends on γ
    const drafting = this.#drafting(
      kind,
      { process, gamma, lastTokens, assistantSpans },
      followsClock ? this.#parts.clock : null,
    );
    const decoding: Decoding = {
      target,
      prompt: given.tokens,
      assistantSpans,
      process,
      randomness,
      maxNewTokens: maxNewTokens ?? target.capacity,
      ends: (token) => stop.ends(token),
      ...beginning(manifest.languages, options),
    };
    const rounds =
      drafting === null || rule === null ? plain(decoding) : speculate({ ...decoding, ...drafting, rule: RULES[rule] });
    return new Stream({
      rounds,
      stop,
      result: {
        text: "",
        tokenIds: [],
        finishReason: null,
        promptTokens: given.tokens.length,
        seed: randomness.seed,
        settings: this.#settings(kind, gamma, rule),
        stats: newStats(),
        logprobs: [],
      },
      maxNewTokens,
      logprobs,
      signal,
      modelSeconds: () => [target.seconds, drafting?.draft.seconds ?? 0],
      occupy: () => this.#occupy(),
    });
  }

  /** A conversation, which keeps the cache from turn to turn. */
  chat(options: ChatOptions = {}): Chat {
    return new Chat(this, options);
  }

  /** The token ids of a prompt; `chat` as of `GenerationOptions`. */
  encode(prompt: PromptInput, chat?: boolean, chatTemplateKwargs: TemplateOptions = {}): readonly number[] {
    return this.#encoder.encode(prompt, chat, chatTemplateKwargs).tokens;
  }

  /** The text of tokens, without special tokens. */
  decode(tokens: readonly number[]): string {
    return this.#parts.codec.decode(tokens);
  }

  /** Frees the models. A text that is being generated must be closed first. @throws BusyError. */
  async dispose(): Promise<void> {
    if (this.#state === "busy") throw new BusyError();
    if (this.#state === "disposed") return;
    this.#state = "disposed";
    await this.#parts.draft?.dispose();
    await this.#parts.target.dispose();
  }

  /** Takes the models for one text, and returns what gives them back. */
  #occupy(): () => void {
    if (this.#state === "busy") throw new BusyError();
    if (this.#state === "disposed") throw new DisposedError();
    this.#state = "busy";
    return () => {
      this.#state = "free";
    };
  }

  /** The name of a drafter, or the caller's own; null decodes plainly. */
  #draftKind(draft: boolean | DrafterName | Drafter): DrafterName | Drafter | null {
    if (draft === false) return null;
    if (draft === true) {
      if (!this.speculates) return null;
      return this.#parts.draft === null ? "ngram" : "both";
    }
    const isOwn = typeof draft === "object" && draft !== null && "propose" in draft;
    if (!isOwn && !DRAFTER_NAMES.includes(draft as DrafterName)) {
      throw new UsageError(`draft is ${shortened(draft)}; give true, false, or one of: ${DRAFTER_NAMES.join(", ")}`);
    }
    if (!this.speculates) throw new NotRowInvariantError();
    return draft;
  }

  #drafting(
    kind: DrafterName | Drafter | null,
    text: Pick<DrafterSetup, "process" | "gamma" | "lastTokens" | "assistantSpans">,
    clock: RoundClock | null,
  ): Drafting | null {
    const { target, draft, vocabulary, costs } = this.#parts;
    const setup = { ...text, target, draft, vocabulary, costs: clock?.costs ?? costs };
    if (typeof kind === "object" && kind !== null) {
      const own = new OwnDrafter(kind, target.vocabulary);
      const cost = ownCost(own);
      return clock?.timedOwn(own, cost, setup) ?? ownDrafter(own, cost, setup);
    }
    const drafting = namedDrafter(kind ?? "ngram", setup); // without a draft, for its check of γ
    if (kind === null) return null;
    return clock === null ? drafting : { ...drafting, gamma: clock.timed(drafting.gamma, target) };
  }

  #settings(kind: DrafterName | Drafter | null, gamma: number | "auto", rule: RuleName | null): Generation["settings"] {
    const { formats } = this.#parts;
    const usesModel = kind === "model" || kind === "both";
    return {
      targetFormat: formats.target,
      draftFormat: usesModel ? formats.draft : null,
      draft: kind === null ? "none" : typeof kind === "object" ? "own" : kind,
      gamma: kind === null ? null : gamma,
      rule,
    };
  }
}

function checkMaxNewTokens(number: number | null): void {
  if (number !== null && !(Number.isInteger(number) && number >= 1)) {
    throw new UsageError(`maxNewTokens is ${shortened(number)}; give a whole number from 1`);
  }
}

/** The rule that decides the text's tokens; null if no rule has a say: nothing is verified, and the noise
 * is not the coupled rule's. */
function ruleName(rule: RuleName | undefined, kind: DrafterName | Drafter | null, greedy: boolean): RuleName | null {
  if (rule !== undefined && !(rule in RULES)) {
    throw new UsageError(`rule is ${shortened(rule)}; give one of: ${Object.keys(RULES).join(", ")}`);
  }
  const name = rule ?? (greedy ? "token" : "coupled");
  return kind === null && (greedy || name !== "coupled") ? null : name;
}
