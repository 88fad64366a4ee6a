package edgespec;

/** A loaded pair. It never changes: threads may share it. */
public final class Model implements AutoCloseable {
  private final Handle handle;

  /** Opens the folder that `edgespec export` wrote. */
  public Model(String folder, LoadOptions options) {
    byte[] path = Utf8.of(folder, "the folder");
    handle = new Handle("model", Native.load(path, options), Native::close);
  }

  /** A session, with the memory of its caches. It goes on when the model is closed. */
  public Session openSession() {
    long model = handle.acquire();
    try {
      return new Session(model);
    } finally {
      handle.release();
    }
  }

  /** Token ids of a text. */
  public long[] encode(String text) {
    byte[] bytes = Utf8.of(text, "the text");
    long model = handle.acquire();
    try {
      return Native.encode(model, bytes);
    } finally {
      handle.release();
    }
  }

  /** The text of token ids, without special tokens. */
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
