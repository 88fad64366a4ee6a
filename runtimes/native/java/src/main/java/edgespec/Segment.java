package edgespec;

/**
 * A part of a transcript, or its end, which has no text; and how far the transcript is.
 *
 * @param start seconds from the beginning of the sound
 * @param end the same
 * @param text without white space around it
 * @param tokens ids, with timestamps
 * @param temperature of its window's text
 * @param logprob mean log-probability of a token of its window
 * @param compression how many times smaller zlib makes its window's text
 * @param noSpeech probability that nothing is said in its window
 * @param language its code; empty until it is known
 * @param languageProbability 0 unless the language was found
 * @param seconds of the sound that were read
 * @param calls of the target
 * @param drafted tokens that were proposed
 * @param accepted those of them that stayed
 * @param ended all was said, and this is no segment
 */
public record Segment(
    double start,
    double end,
    String text,
    long[] tokens,
    double temperature,
    double logprob,
    double compression,
    double noSpeech,
    String language,
    double languageProbability,
    double seconds,
    long calls,
    long drafted,
    long accepted,
    boolean ended) {

  /** Called by the library. */
  Segment(
      double[] numbers, byte[] text, long[] tokens, byte[] language, long[] counts, int ended) {
    this(
        numbers[0],
        numbers[1],
        Utf8.text(text),
        tokens,
        numbers[2],
        numbers[3],
        numbers[4],
        numbers[5],
        Utf8.text(language),
        numbers[6],
        numbers[7],
        counts[0],
        counts[1],
        counts[2],
        ended != 0);
  }
}
