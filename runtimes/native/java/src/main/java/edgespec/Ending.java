package edgespec;

/** Why a text ended. The order is that of edgespec_ending. */
public enum Ending {
  GOES_ON,
  /** A token of the model ended it. */
  END_OF_TEXT,
  /** One of stopTokens or a string of stop did. */
  STOPPED,
  MAX_TOKENS,
  /** The cache is full. */
  FULL,
}
