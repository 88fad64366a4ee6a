package edgespec;

/** A call that failed; the message says why in one line. */
public final class EdgespecException extends RuntimeException {
  private static final long serialVersionUID = 1;

  /** What was wrong; the order is that of edgespec_status. */
  public enum Status {
    /** Never an exception's. */
    OK,
    /** Something outside the program: a file, a model, a machine. */
    ERROR,
    /** The caller asked for something that cannot be. */
    USAGE,
    /** {@link Session#cancel} ended the text. */
    CANCELLED,
  }

  private final Status status;

  EdgespecException(String message) {
    super(message);
    status = Status.USAGE;
  }

  /** Called by the library. */
  EdgespecException(int status, byte[] message) {
    super(Utf8.text(message));
    this.status = Status.values()[status];
  }

  /** Whether a text that failed so has no more pieces: not where another thread uses its session. */
  boolean endsText() {
    return status != Status.USAGE;
  }

  /** What was wrong. */
  public Status status() {
    return status;
  }
}
