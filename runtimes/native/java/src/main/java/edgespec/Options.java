package edgespec;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * How a text is made; docs/reference/api.md says more about each option. Null instead of options is
 * the defaults.
 */
public final class Options {
  /** 0: greedy. */
  public double temperature = 0;

  /** 0: off. */
  public long topK = 0;

  /** 1: off. */
  public double topP = 1;

  /** 0: off, and the next two. */
  public double minP = 0;

  public double topNSigma = 0;
  public double xtcProbability = 0;
  public double xtcThreshold = 0.1;

  /** 1: off. */
  public double repetitionPenalty = 1;

  public double presencePenalty = 0;
  public double frequencyPenalty = 0;

  /** Added to logits, by token. */
  public Map<Long, Double> logitBias = new LinkedHashMap<>();

  public long minTokens = 0;

  /** -1: up to the end of the text or of the cache. */
  public long maxNewTokens = -1;

  /** They end the text, as the model's own do, and are part of it. */
  public long[] stopTokens = {};

  /** Go on after a token of the model that ends a text. */
  public boolean ignoreEos = false;

  public Draft draft = Draft.BOTH;

  /** Tokens drafted a round; -1: as many as pay. */
  public long gamma = -1;

  public Rule rule = Rule.DEFAULT;

  /** 64 bits that draw the same text again; null: new ones. */
  public Long seed = null;

  /** Report of each token the log of its probability by the target. */
  public boolean logprobs = false;

  /**
   * Where the earlier answers of a conversation of token ids are: begin and end of each, as edgespec.h
   * says. What the caches hold of it is then not computed again. null: it is.
   */
  public long[] answers = null;

  /** Strings that end the text and are no part of it. */
  public List<String> stop = new ArrayList<>();

  // As the library takes them.

  int draftNumber() {
    return draft.ordinal();
  }

  int ruleNumber() {
    return rule.ordinal();
  }

  boolean hasSeed() {
    return seed != null;
  }

  long seedBits() {
    return seed == null ? 0 : seed;
  }

  long[] biasTokens() {
    return logitBias.keySet().stream().mapToLong(Long::longValue).toArray();
  }

  double[] biases() {
    return logitBias.values().stream().mapToDouble(Double::doubleValue).toArray();
  }

  long[] answersGiven() {
    if (answers == null || answers.length % 2 == 0) return answers;
    throw new EdgespecException(
        "answers has " + answers.length + " numbers; give a begin and an end of each answer");
  }

  long[] stopTokensGiven() {
    return stopTokens;
  }

  byte[][] stopBytes() {
    return stop.stream().map(one -> Utf8.of(one, "stop")).toArray(byte[][]::new);
  }
}
