package edgespec;

/**
 * What a pair takes, in bytes.
 *
 * @param weights graphs and weights, once for all sessions
 * @param caches of a session, or of each text of a batch, when they are full; they take memory as they
 *     are filled
 */
public record MemoryEstimate(long weights, long caches) {}
