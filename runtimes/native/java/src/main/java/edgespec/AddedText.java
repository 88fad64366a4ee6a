package edgespec;

/**
 * A text of a batch.
 *
 * @param text its number, counted from 0
 * @param seed draws the same text again
 */
public record AddedText(long text, long seed) {}
