package edgespec;

/** The functions of edgespec.h, as jni/edgespec_jni.cpp gives them. Handles are addresses. */
final class Native {
  static {
    System.loadLibrary("edgespec_jni");
    checkAbi();
  }

  private Native() {}

  /** Throws EdgespecException: libedgespec is of another ABI than this binding was compiled for. */
  static native void checkAbi();

  static native String version();

  static native long load(byte[] folder, LoadOptions options);

  static native MemoryEstimate estimate(byte[] folder, LoadOptions options);

  static native void close(long model);

  static native long openSession(long model);

  static native long fork(long session);

  static native void save(long session, byte[] file);

  static native long loadSession(long model, byte[] file);

  static native void closeSession(long session);

  static native long begin(long session, long[] prompt, Options options);

  static native long beginText(long session, byte[] prompt, Options options);

  static native long beginChat(long session, byte[][] roles, byte[][] contents, Options options);

  static native Piece next(long session);

  static native void beginTranscript(long session, float[] samples, TranscriptOptions options);

  static native Segment nextSegment(long session);

  static native Progress promptProgress(long session);

  static native void cancel(long session);

  static native long openBatch(long model, int texts);

  static native void closeBatch(long batch);

  static native AddedText batchAdd(long batch, long[] prompt, Options options);

  static native AddedText batchAddText(long batch, byte[] prompt, Options options);

  static native AddedText batchAddChat(
      long batch, byte[][] roles, byte[][] contents, Options options);

  /** Puts the text's number into text, also where it throws. */
  static native Piece batchNext(long batch, long[] text);

  static native Progress batchProgress(long batch, long text);

  static native void batchCancel(long batch, long text);

  static native long[] encode(long model, byte[] text);

  static native byte[] decode(long model, long[] tokens);
}
