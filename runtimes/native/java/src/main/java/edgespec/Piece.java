package edgespec;

/**
 * What one call of the target brought, or the text's end, which has no tokens.
 *
 * @param tokens ids
 * @param text what became final with them, or with the end
 * @param logprobs of the tokens; empty unless asked for
 * @param drafted tokens that were proposed
 * @param evaluated those that the rule looked at
 * @param accepted those of them that stayed
 * @param ending GOES_ON but for the last piece
 */
public record Piece(
    long[] tokens,
    String text,
    double[] logprobs,
    long drafted,
    long evaluated,
    long accepted,
    Ending ending) {

  /** Called by the library. */
  Piece(
      long[] tokens,
      byte[] text,
      double[] logprobs,
      long drafted,
      long evaluated,
      long accepted,
      int ending) {
    this(
        tokens,
        Utf8.text(text),
        logprobs,
        drafted,
        evaluated,
        accepted,
        Ending.values()[ending]);
  }
}
