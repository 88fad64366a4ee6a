package edgespec;

/** How a pair is opened. */
public final class LoadOptions {
  /** File of ONNX Runtime's library, 1.25 or newer; null: its usual name, where the system looks. */
  public String onnxruntime = null;

  /** Which exported variants; null: the first. */
  public String targetFormat = null;

  public String draftFormat = null;

  /** Of each model; 0: all physical cores. */
  public int threads = 0;

  /** Speculate even where the target was not found row-invariant. */
  public boolean allowInexact = false;

  /** Positions of a session's caches; 0: the exporter's choice. */
  public long capacity = 0;

  byte[] onnxruntimeBytes() {
    return onnxruntime == null ? null : Utf8.of(onnxruntime, "onnxruntime");
  }

  byte[] targetFormatBytes() {
    return targetFormat == null ? null : Utf8.of(targetFormat, "targetFormat");
  }

  byte[] draftFormatBytes() {
    return draftFormat == null ? null : Utf8.of(draftFormat, "draftFormat");
  }
}
