package edgespec;

import java.util.List;

/**
 * One text after the other, with caches of its own. One thread at a time may use it; {@link #cancel}
 * and {@link #close} may be called by any. Close it: nothing else frees its memory.
 */
public final class Session implements AutoCloseable {
  private interface Begin {
    long on(long session);
  }

  private final Handle handle;
  private volatile Object latest; // a Text or a Transcript

  Session(long address) {
    handle = new Handle("session", address, Native::closeSession);
  }

  /** Another session with the same caches and text: {@link #rest} goes on from here as this does. */
  public Session fork() {
    long session = handle.acquire();
    try {
      return new Session(Native.fork(session));
    } finally {
      handle.release();
    }
  }

  /** Writes caches and text to a file, whole or not at all; {@link Model#loadSession} opens it. */
  public void save(String file) {
    byte[] path = Utf8.of(file, "the file");
    long session = handle.acquire();
    try {
      Native.save(session, path);
    } finally {
      handle.release();
    }
  }

  /** What is still to come of the text that a fork or a loaded session goes on with. */
  public Text rest() {
    return begin(session -> 0);
  }

  /** How far the latest prompt is read; any thread may ask. */
  public Progress promptProgress() {
    long session = handle.acquire();
    try {
      return Native.promptProgress(session);
    } finally {
      handle.release();
    }
  }

  /** Begins a text that goes on from token ids; one that has not ended is dropped. */
  public Text begin(long[] prompt, Options options) {
    return begin(session -> Native.begin(session, prompt, options));
  }

  /** Begins a text that goes on from this one. Special tokens that it spells out are tokens. */
  public Text begin(String prompt, Options options) {
    byte[] bytes = Utf8.of(prompt, "the prompt");
    return begin(session -> Native.beginText(session, bytes, options));
  }

  /**
   * Begins the answer to a conversation, whose last message is a user's. Give all of it each time: what
   * the caches still hold is not computed again.
   */
  public Text begin(List<Message> messages, Options options) {
    byte[][] roles = new byte[messages.size()][];
    byte[][] contents = new byte[messages.size()][];
    for (int i = 0; i < roles.length; i++) {
      roles[i] = Utf8.of(messages.get(i).role(), "a role");
      contents[i] = Utf8.of(messages.get(i).content(), "a message");
    }
    return begin(session -> Native.beginChat(session, roles, contents, options));
  }

  /** Begins the transcript of a sound: mono, 16,000 samples a second, about -1 to 1. */
  public Transcript beginTranscript(float[] samples, TranscriptOptions options) {
    long session = handle.acquire();
    try {
      Native.beginTranscript(session, samples, options);
      Transcript transcript = new Transcript(this);
      latest = transcript;
      return transcript;
    } finally {
      handle.release();
    }
  }

  /** Ends the text that is being made, from any thread; another one may begin then. */
  public void cancel() {
    long session = handle.acquire();
    try {
      Native.cancel(session);
    } finally {
      handle.release();
    }
  }

  /** Frees its caches; a call that another thread has begun ends first, sooner after {@link #cancel}. */
  @Override
  public void close() {
    handle.close();
  }

  Piece next(Text text) {
    if (text != latest) {
      throw new IllegalStateException("another text has begun in this session");
    }
    long session = handle.acquire();
    try {
      return Native.next(session);
    } finally {
      handle.release();
    }
  }

  Segment nextSegment(Transcript transcript) {
    if (transcript != latest) {
      throw new IllegalStateException("another transcript has begun in this session");
    }
    long session = handle.acquire();
    try {
      return Native.nextSegment(session);
    } finally {
      handle.release();
    }
  }

  private Text begin(Begin call) {
    long session = handle.acquire();
    try {
      Text text = new Text(this, call.on(session));
      latest = text;
      return text;
    } finally {
      handle.release();
    }
  }
}
