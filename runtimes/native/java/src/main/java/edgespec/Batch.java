package edgespec;

import java.util.List;

/**
 * Several texts at once, in calls that they share: each is as it is alone. One thread at a time may
 * use it; {@link #progress}, {@link #cancel} and {@link #close} may be called by any. Close it: nothing
 * else frees its memory.
 *
 * <pre>for (TextPiece one = batch.next(); one != null; one = batch.next()) show(one);</pre>
 */
public final class Batch implements AutoCloseable {
  private interface Add {
    AddedText to(long batch);
  }

  private final Handle handle;

  Batch(long address) {
    handle = new Handle("batch", address, Native::closeBatch);
  }

  /** Adds a text that goes on from token ids, beside those that are being made. */
  public AddedText add(long[] prompt, Options options) {
    return add(batch -> Native.batchAdd(batch, prompt, options));
  }

  /** Adds a text that goes on from this one. Special tokens that it spells out are tokens. */
  public AddedText add(String prompt, Options options) {
    byte[] bytes = Utf8.of(prompt, "the prompt");
    return add(batch -> Native.batchAddText(batch, bytes, options));
  }

  /** Adds the answer to a conversation, whose last message is a user's. */
  public AddedText add(List<Message> messages, Options options) {
    byte[][] roles = new byte[messages.size()][];
    byte[][] contents = new byte[messages.size()][];
    for (int i = 0; i < roles.length; i++) {
      roles[i] = Utf8.of(messages.get(i).role(), "a role");
      contents[i] = Utf8.of(messages.get(i).content(), "a message");
    }
    return add(batch -> Native.batchAddChat(batch, roles, contents, options));
  }

  /** The next piece of any text; null if none is being made. */
  public TextPiece next() {
    long[] text = {-1};
    long batch = handle.acquire();
    try {
      Piece piece = Native.batchNext(batch, text);
      return text[0] < 0 ? null : new TextPiece(text[0], piece, null);
    } catch (EdgespecException failure) {
      if (text[0] < 0) throw failure;
      return new TextPiece(text[0], null, failure);
    } finally {
      handle.release();
    }
  }

  /** How far a text's prompt is read; any thread may ask. */
  public Progress progress(long text) {
    long batch = handle.acquire();
    try {
      return Native.batchProgress(batch, text);
    } finally {
      handle.release();
    }
  }

  /** Takes a text out, from any thread: what comes next of it is a failure. */
  public void cancel(long text) {
    long batch = handle.acquire();
    try {
      Native.batchCancel(batch, text);
    } finally {
      handle.release();
    }
  }

  /** Frees its caches; a call that another thread has begun ends first. */
  @Override
  public void close() {
    handle.close();
  }

  private AddedText add(Add call) {
    long batch = handle.acquire();
    try {
      return call.to(batch);
    } finally {
      handle.release();
    }
  }
}
