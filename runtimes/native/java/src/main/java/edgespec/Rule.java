package edgespec;

/** Who decides which drafted tokens stay. All are exact. The order is that of edgespec_rule. */
public enum Rule {
  /** Coupled when sampling; greedy text is the same with each. */
  DEFAULT,
  /** The text is the plain text of its seed, token by token. */
  COUPLED,
  TOKEN,
  BLOCK,
}
