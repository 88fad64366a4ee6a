package edgespec;

/** A loaded pair. It never changes: threads may share it. Close it: nothing else frees its memory. */
public final class Model implements AutoCloseable {
  private final Handle handle;

  /**
   * Opens the folder that `edgespec export` wrote.
   *
   * @param options null: the defaults
   * @throws EdgespecException it is no such folder, is damaged, or has what is not known here
   */
  public Model(String folder, LoadOptions options) {
    byte[] path = Utf8.of(folder, "the folder");
    handle = new Handle("model", Native.load(path, options), Native::close);
  }

  /** What a pair will take, from its manifest alone. Options that are null are the defaults. */
  public static MemoryEstimate estimate(String folder, LoadOptions options) {
    return Native.estimate(Utf8.of(folder, "the folder"), options);
  }

  /** A session, with the memory of its caches. It goes on when the model is closed. */
  public Session openSession() {
    long model = handle.acquire();
    try {
      return new Session(Native.openSession(model));
    } finally {
      handle.release();
    }
  }

  /** A batch of so many texts at once. It goes on when the model is closed. */
  public Batch openBatch(int texts) {
    long model = handle.acquire();
    try {
      return new Batch(Native.openBatch(model, texts));
    } finally {
      handle.release();
    }
  }

  /** A saved session, which goes on with its text as the saved one did: {@link Session#rest}. */
  public Session loadSession(String file) {
    byte[] path = Utf8.of(file, "the file");
    long model = handle.acquire();
    try {
      return new Session(Native.loadSession(model, path));
    } finally {
      handle.release();
    }
  }

  /** Token ids of a text, which is not empty. */
  public long[] encode(String text) {
    byte[] bytes = Utf8.of(text, "the text");
    long model = handle.acquire();
    try {
      return Native.encode(model, bytes);
    } finally {
      handle.release();
    }
  }

  /** The text of token ids, without special tokens and ids that are no token's. */
  public String decode(long... tokens) {
    long model = handle.acquire();
    try {
      return Utf8.text(Native.decode(model, tokens));
    } finally {
      handle.release();
    }
  }

  /** The version of edgespec that the library is part of. */
  public static String version() {
    return Native.version();
  }

  @Override
  public void close() {
    handle.close();
  }
}
