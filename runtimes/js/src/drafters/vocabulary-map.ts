// Maps token ids between a target and its draft.
//
// A draft may know only some of its target's tokens: the first ones, the frequent ones, or those that its own
// tokenizer has too. It never proposes the others, which does not change the text's distribution.

import { Distribution, type Processor } from "../core/distribution.js";
import type { Range } from "../core/model.js";
import { isIdOf } from "../core/token-id.js";

/** A prompt in a draft's token ids, with the positions of its earlier answers. */
export interface DraftPrompt {
  readonly tokens: number[];
  readonly assistantSpans: readonly Range[] | null;
}

/** Maps token ids between target and draft. */
export interface Vocabulary {
  /** The draft's ids for tokens of the target: at least one for each, and exactly one for a token that the
   * draft may propose. A token that the draft lacks is replaced by others: the prediction gets worse, not the
   * text. */
  toDraftIds(tokens: readonly number[]): number[];
  /** The target's id for a token of the draft. */
  toTargetId(token: number): number;
  /** A prompt of the target, for the draft; answers as in `Model.prefill`. */
  prompt(tokens: readonly number[], assistantSpans: readonly Range[] | null): DraftPrompt;
  /** q over token ids of the target, from one row of the draft's logits, float32 [vocabulary]. */
  distribution(process: Processor, logits: Float32Array): Distribution;
  /** Whether all `size` tokens of the draft are tokens of the target. */
  covers(size: number): boolean;
}

/** Both models use the same token ids; one of them may have more. */
export class SharedTokens implements Vocabulary {
  /** @param width number of tokens that both have. */
  constructor(readonly width: number) {}

  toDraftIds(tokens: readonly number[]): number[] {
    return tokens.map((token) => this.toTargetId(token));
  }

  toTargetId(token: number): number {
    return token < this.width ? token : 0;
  }

  prompt(tokens: readonly number[], assistantSpans: readonly Range[] | null): DraftPrompt {
    return { tokens: this.toDraftIds(tokens), assistantSpans };
  }

  distribution(process: Processor, logits: Float32Array): Distribution {
    return process(logits.length === this.width ? logits : logits.subarray(0, this.width));
  }

  covers(size: number): boolean {
    return size <= this.width;
  }
}

/** The draft has some of the target's tokens, under its own ids. */
export class SomeTokens implements Vocabulary {
  /**
   * @param outputs [draft vocabulary] the target's id of each draft token, increasing.
   * @param inputs [target vocabulary] what the draft reads for each target token.
   * @param inputSize tokens that the draft can read; by default those that it may propose.
   * @throws RangeError: the two do not fit each other.
   */
  constructor(
    readonly outputs: readonly number[],
    readonly inputs: readonly number[],
    inputSize?: number | null,
  ) {
    const increases = outputs.every((token, index) => index === 0 || token > outputs[index - 1]!);
    if (outputs.length === 0 || !increases) throw new RangeError("outputs do not increase");
    if (!outputs.every(isIdOf(inputs.length))) throw new RangeError("outputs name tokens that the target lacks");
    if (!inputs.every(isIdOf(inputSize ?? outputs.length)))
      throw new RangeError("inputs name tokens that the draft lacks");
  }

  toDraftIds(tokens: readonly number[]): number[] {
    return tokens.map((token) => this.inputs[token]!);
  }

  prompt(tokens: readonly number[], assistantSpans: readonly Range[] | null): DraftPrompt {
    return { tokens: this.toDraftIds(tokens), assistantSpans };
  }

  toTargetId(token: number): number {
    return this.outputs[token]!;
  }

  distribution(process: Processor, logits: Float32Array): Distribution {
    const q = process(logits);
    const tokens = q.tokens === null ? this.outputs : Array.from(q.tokens, (token) => this.outputs[token]!);
    return new Distribution(tokens, q.probabilities);
  }

  covers(size: number): boolean {
    return size === this.outputs.length;
  }
}
