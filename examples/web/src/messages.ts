// What the page and its worker tell each other.

/** A message of a conversation. */
export interface Message {
  readonly role: "user" | "assistant";
  readonly content: string;
}

/** A text, or, for models that chat, a conversation whose last message is to be answered. */
export type Prompt = string | readonly Message[];

/** Address of a pair, or its files as dropped into the page. */
export type Where = string | ReadonlyMap<string, File>;

/** How a text is going, or went. */
export interface Figures {
  readonly tokens: number;
  /** After the first call of the target; null until there is a second. */
  readonly tokensPerSecond: number | null;
  /** The part of the text that the draft proposed, 0 to 1. */
  readonly drafted: number;
}

/** What a pair is, as far as a page shows it. */
export interface Opened {
  /** It takes conversations; others take one text at a time. */
  readonly chats: boolean;
  /** It reads a text with an encoder: it translates, or sums up. */
  readonly encodes: boolean;
  /** Drafting is exact on this device. */
  readonly speculates: boolean;
  readonly seconds: number;
}

/** Why a text is at its end, or where it waits. */
export type Ending = "eos" | "stop" | "max_tokens" | "capacity" | "stopped" | "waits";

export type ToWorker =
  | { readonly type: "load"; readonly where: Where }
  | { readonly type: "answer"; readonly prompt: Prompt }
  | { readonly type: "continue" }
  | { readonly type: "compare"; readonly prompt: Prompt; readonly tokenIds: readonly number[] }
  | { readonly type: "kept"; readonly urls: readonly string[] }
  | { readonly type: "forget"; readonly url: string }
  | { readonly type: "stop" };

export type FromWorker =
  | { readonly type: "progress"; readonly loaded: number; readonly total: number }
  | ({ readonly type: "loaded" } & Opened)
  | { readonly type: "chunk"; readonly text: string; readonly drafted: boolean; readonly figures: Figures }
  | { readonly type: "ended"; readonly ending: Ending; readonly tokenIds: readonly number[]; readonly figures: Figures }
  | { readonly type: "comparing"; readonly tokens: number }
  /** The first token that differs; null where none does. */
  | { readonly type: "compared"; readonly differsAt: number | null; readonly tokensPerSecond: number | null }
  /** Plain decoding on this device, measured while nothing else was wanted. */
  | { readonly type: "plain"; readonly tokensPerSecond: number }
  | { readonly type: "kept"; readonly urls: readonly string[] }
  /** Loading or comparing was stopped. */
  | { readonly type: "aborted" }
  | { readonly type: "failed"; readonly message: string };
