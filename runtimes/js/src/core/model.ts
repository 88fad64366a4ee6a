// What the decoding loop asks of a model: interfaces that any runtime can implement.

/** Positions start … end − 1. */
export interface Range {
  readonly start: number;
  readonly end: number;
}

/** A row of logits for each position of a call, float32 [vocabulary] each; valid until the next call. */
export type Rows = readonly Float32Array[];

/** A model with a cache of fixed capacity, rewound by setting its length. */
export interface Model {
  /** Width of a row of logits. */
  readonly vocabulary: number;
  /** Positions that the cache can hold. */
  readonly capacity: number;
  /** Positions in the cache now. */
  readonly length: number;
  /**
   * Prefix of the cache that is final as long as the text keeps its tokens. Equal to `length`, but
   * for EAGLE heads: they recompute positions that they drafted from their own hidden states.
   */
  readonly validLength: number;
  /** Seconds spent computing so far. The rest of a generation's time is the loop's. */
  readonly seconds: number;

  /**
   * Starts a new text.
   *
   * @param prompt at least one token id.
   * @param assistantSpans positions of a conversation's earlier answers, which were scored while they were
   *   generated. A target scores them the same way again, so what its cache holds of the
   *   conversation is reused and the result is bitwise the same. Null: no reuse.
   * @returns the *pending* token: its row of logits is the first that the loop needs. It is the
   *   prompt's last token, or the start token of an encoder-decoder, and not in the cache yet.
   * @throws UsageError: the prompt is empty. PromptTooLongError: it does not fit the cache.
   */
  prefill(prompt: readonly number[], assistantSpans?: readonly Range[] | null): Promise<number>;

  /**
   * Appends `tokens` to the cache and returns the logits after each, then after each candidate.
   *
   * @param candidates only for models with `scoresCandidates`; the cache grows by `tokens` only.
   */
  score(tokens: readonly number[], candidates?: readonly Candidate[]): Promise<Rows>;

  /** Drops all positions from `length` on. Costs nothing. */
  rewind(length: number): void;
}

/**
 * An alternative to tokens[parent + 1] of a call; it follows tokens[parent]. It is scored in the
 * same call and becomes part of the text only when it is committed.
 */
export interface Candidate {
  readonly parent: number;
  readonly token: number;
}

/** A model that can score candidates together with a call's tokens. */
export interface CandidateModel extends Model {
  /** Whether it does so here, exactly (`RowInvariance.candidates`). */
  readonly scoresCandidates: boolean;

  /** How many candidates fit into a call of `count` tokens now; 0 if none can be scored. */
  candidateRoom(count: number): number;

  /**
   * Appends candidate `number` of the latest call to the cache, which must have been rewound to end
   * with the candidate's parent.
   */
  commitCandidate(number: number): void;
}

/** The model, if it scores candidates here. */
export function candidateModelOf(model: Model): CandidateModel | null {
  const candidates = model as Partial<CandidateModel>;
  return candidates.scoresCandidates ? (model as CandidateModel) : null;
}
