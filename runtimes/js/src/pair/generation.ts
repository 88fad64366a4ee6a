// What a generation gives: chunks as they come, and the result.

import type { RuleName } from "../core/verification.js";

/** A token as it is emitted. */
export interface Chunk {
  /** Its id; null in a last chunk that only releases text held back. */
  readonly token: number | null;
  /** What became final with it; empty while a character or a stop string may be unfinished. */
  readonly text: string;
  /** The draft proposed it and the target accepted it. */
  readonly drafted: boolean;
  /** The token's log-probability under the target, before temperature and truncation, if asked for. */
  readonly logprob: number | null;
}

/** Counts and times of one generation. */
export interface Stats {
  /** Emitted tokens. */
  tokens: number;
  /** Verifications (or plain steps); the prompt is not counted. */
  targetCalls: number;
  /** Proposed tokens, and those that were emitted. */
  drafted: number;
  accepted: number;
  /** Proposed tokens that the rule looked at; it looks at none after a rejection. */
  evaluated: number;
  /** Of the whole generation, prompt included; the consumer's own time is not counted. */
  seconds: number;
  /** Up to the first emitted token, prompt included, and the tokens that came with it. */
  firstTokenSeconds: number;
  firstTokens: number;
  /** Inside the models, prompt included. */
  targetSeconds: number;
  draftSeconds: number;
}

/** How a text was generated, defaults resolved. */
export interface Settings {
  readonly targetFormat: string;
  readonly draftFormat: string | null;
  /** Name of the drafter, "none", or "own". */
  readonly draft: string;
  readonly gamma: number | "auto" | null;
  /** Without a draft "coupled", if it sampled, or null. */
  readonly rule: RuleName | null;
}

export type FinishReason = "eos" | "stop" | "max_tokens" | "capacity";

/** What was generated. */
export interface Generation {
  /** Without special tokens and without the stop string. */
  text: string;
  /** Every emitted token, an end-of-text token included. */
  tokenIds: number[];
  /** Null while the text is not at its end. */
  finishReason: FinishReason | null;
  /** How many tokens the prompt has, its chat format included. */
  promptTokens: number;
  /** Draws the same text again, with the same rule (and, but for the coupled one, draft and γ). */
  seed: number;
  settings: Settings;
  stats: Stats;
  /** One for each token, when asked for. */
  logprobs: number[];
}

export function newStats(): Stats {
  return {
    tokens: 0,
    targetCalls: 0,
    drafted: 0,
    accepted: 0,
    evaluated: 0,
    seconds: 0,
    firstTokenSeconds: 0,
    firstTokens: 0,
    targetSeconds: 0,
    draftSeconds: 0,
  };
}
