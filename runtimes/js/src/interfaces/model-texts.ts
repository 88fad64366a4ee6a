// Texts as the browser's own APIs give them: promises and streams of strings, errors by their names.

import { PromptTooLongError } from "../errors.js";
import type { Generation } from "../pair/generation.js";
import type { GenerationOptions, PromptInput } from "../pair/options.js";
import { inTurn, type TextMaker } from "./turns.js";

/** The input does not fit, by the name that these APIs give it. */
export class QuotaExceededError extends PromptTooLongError {
  override readonly name = "QuotaExceededError";

  get requested(): number {
    return this.tokens;
  }

  get quota(): number {
    return this.capacity;
  }
}

/** A text that is asked for: `prompt` and `options` are looked at when its turn has come. */
export interface TextRequest {
  readonly pair: TextMaker;
  readonly prompt: () => PromptInput;
  readonly options: GenerationOptions;
  /** Of the call, and of the object that may be destroyed. */
  readonly signals: readonly (AbortSignal | undefined)[];
  readonly onEnd?: (result: Generation) => void;
}

/** The pieces of a text. @throws QuotaExceededError; the reason of a signal that aborted. */
export async function* pieces(request: TextRequest): AsyncGenerator<string, void, undefined> {
  const { pair, prompt, options, signals, onEnd } = request;
  const signal = AbortSignal.any(signals.filter((signal) => signal !== undefined));
  const chunks = inTurn(pair, () => pair.stream(prompt(), { ...options, signal }), signal);
  try {
    let next = await chunks.next();
    for (; !next.done; next = await chunks.next()) if (next.value.text !== "") yield next.value.text;
    onEnd?.(next.value);
  } catch (error) {
    if (error instanceof PromptTooLongError) throw new QuotaExceededError(error.tokens, error.capacity);
    throw error;
  } finally {
    await chunks.return(undefined as never); // where the reader leaves early
  }
}

export async function joined(text: AsyncGenerator<string>): Promise<string> {
  let whole = "";
  for await (const piece of text) whole += piece;
  return whole;
}

export function asReadable(text: AsyncGenerator<string>): ReadableStream<string> {
  return new ReadableStream<string>(
    {
      async pull(controller) {
        const { done, value } = await text.next();
        if (done) controller.close();
        else controller.enqueue(value);
      },
      async cancel() {
        await text.return(undefined);
      },
    },
    { highWaterMark: 0 }, // a token is computed when it is asked for
  );
}
