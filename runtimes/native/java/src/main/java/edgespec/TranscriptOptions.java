package edgespec;

/** How a sound is transcribed; docs/reference/api.md says more. A limit may be NaN: none. */
public final class TranscriptOptions {
  /** Code of the spoken language; null: found in the first window with speech. */
  public String language = null;

  /** To English. */
  public boolean translate = false;

  /** Let the model say when; without, a window is one segment. */
  public boolean timestamps = true;

  /** The text of earlier windows is the beginning of the next one's. */
  public boolean usePrevious = false;

  /** Stands before the first window's text as if it had been said; null: nothing. */
  public String prompt = null;

  /** Of the text: a window whose text is no good is decoded again at the next one. */
  public double[] temperatures = {0, 0.2, 0.4, 0.6, 0.8, 1};

  /** Probability of silence above which an improbable window is left out. */
  public double noSpeech = 0.6;

  /** Mean log-probability of a token below which a text is improbable. */
  public double minLogprob = -1;

  /** How many times smaller zlib makes a text that does not repeat itself. */
  public double maxCompression = 2.4;

  public Draft draft = Draft.BOTH;

  /** Tokens drafted a round; -1: as many as pay. */
  public long gamma = -1;

  /** 64 bits; a sound has one transcript for each. */
  public long seed = 0;

  // As the library takes them.

  int draftNumber() {
    return draft.ordinal();
  }

  byte[] languageBytes() {
    return language == null ? null : Utf8.of(language, "language");
  }

  byte[] promptBytes() {
    return prompt == null ? null : Utf8.of(prompt, "prompt");
  }

  double[] temperaturesGiven() {
    return temperatures;
  }
}
