// Is told every emitted token in order; says whether the text ends with it, and why.

import type { FinishReason } from "./generation.js";
import type { GrowingText } from "./growing-text.js";

export class StopCondition {
  /** Null while the text is not at its end. */
  reason: FinishReason | null = null;
  /** The text that became final with each token. */
  readonly pieces: string[] = [];
  readonly #lastTokens: ReadonlySet<number>;

  constructor(
    readonly text: GrowingText,
    lastTokens: readonly number[],
  ) {
    this.#lastTokens = new Set(lastTokens);
  }

  ends(token: number): boolean {
    this.pieces.push(this.text.add(token));
    if (this.#lastTokens.has(token)) this.reason = "eos";
    else if (this.text.stopped) this.reason = "stop";
    return this.reason !== null;
  }

  /** The text that was held back when the text ended; it may contain a stop string. */
  rest(): string {
    const rest = this.text.end();
    if (this.text.stopped) this.reason ??= "stop";
    return rest;
  }
}
