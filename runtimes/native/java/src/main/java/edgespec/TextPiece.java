package edgespec;

/**
 * What came next of the texts of a batch.
 *
 * @param text the number of the text
 * @param piece null where the text failed
 * @param failure why it failed: it has ended, and the others go on; null where it did not
 */
public record TextPiece(long text, Piece piece, EdgespecException failure) {}
