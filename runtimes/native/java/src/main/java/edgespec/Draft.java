package edgespec;

/** Who drafts. Greedy text is the same with each. The order is that of edgespec_draft. */
public enum Draft {
  /** Plain decoding. */
  NONE,
  /** The draft model; lookup, where the pair has none. */
  MODEL,
  /** What followed the same tokens earlier, in the prompt or the text. */
  LOOKUP,
  /** In each round, the one of both that is expected to bring more. */
  BOTH,
}
