// What callers of the package pass.

import type { Sampling } from "../core/sampling.js";
import type { Watch } from "../host.js";
import type { Drafter } from "../core/draft.js";
import type { Costs } from "../core/cost-model.js";
import type { RuleName } from "../core/verification.js";
import type { DrafterName } from "../drafters/registry.js";

/** How a pair is opened. */
export interface LoadOptions extends Watch {
  /** Which exported variants; the first by default. */
  readonly targetFormat?: string;
  readonly draftFormat?: string;
  /** Positions that each cache holds; the exporter's choice by default. */
  readonly capacity?: number;
  /** Of rounds with the draft model, for γ "auto". By default rounds are timed, where the text does not depend on γ. */
  readonly costs?: Costs;
  /** Speculate even on a target that is not row-invariant; it is not measured. */
  readonly allowInexact?: boolean;
}

/** How a text is generated. */
export interface GenerationOptions extends Partial<Sampling> {
  /** Up to the end of the text or of the cache by default. */
  readonly maxNewTokens?: number;
  /**
   * Draws the same text again; a new one by default. With the coupled rule a seed has one text, whatever
   * drafts; with the others another draft or γ draws another.
   */
  readonly seed?: number;
  /** Tokens drafted a round, or "auto", the default: the number that acceptance and costs make fastest. */
  readonly gamma?: number | "auto";
  /**
   * True, the default: n-gram lookup and the draft model, in each round the one with the larger
   * expected speed-up; where the target is not row-invariant, none. False decodes plainly.
   */
  readonly draft?: boolean | DrafterName | Drafter;
  /**
   * All are exact. The coupled rule by default when sampling, also without a draft: the text is then the
   * plain text of its seed, token by token. Greedy text is that with every rule.
   */
  readonly rule?: RuleName;
  /** Strings that end the text and are not part of it. */
  readonly stop?: string | readonly string[];
  /** Go on after an end-of-text token. */
  readonly ignoreEos?: boolean;
  /** Report the target's log-probability of each token. */
  readonly logprobs?: boolean;
  /** Put the model's own chat format around a prompt that is a text; by default if the model has one. */
  readonly chat?: boolean;
  /** Values of the model's chat template by name, such as { enable_thinking: false }. */
  readonly chatTemplateKwargs?: Readonly<Record<string, unknown>>;
  /** Of a translation model that is told its languages (`manifest.languages`); the checkpoint's own by default. */
  readonly sourceLanguage?: string;
  readonly targetLanguage?: string;
  /** Ends the generation with `AbortedError`. */
  readonly signal?: AbortSignal;
}

/** A message of a conversation. */
export interface Message {
  readonly role: "system" | "user" | "assistant";
  readonly content: string;
}

/** Text; token ids, used as they are; or the messages of a conversation, to be answered. */
export type PromptInput = string | readonly number[] | readonly Message[];
