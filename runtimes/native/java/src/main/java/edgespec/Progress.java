package edgespec;

/**
 * How far a prompt is read, in positions that the session's caches did not hold.
 *
 * @param read so far
 * @param toRead all of them
 */
public record Progress(long read, long toRead) {}
