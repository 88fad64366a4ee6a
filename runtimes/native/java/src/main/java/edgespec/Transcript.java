package edgespec;

import java.util.Iterator;
import java.util.NoSuchElementException;

/** The segments of a transcript, made as they are asked for. */
public final class Transcript implements Iterator<Segment>, Iterable<Segment> {
  private final Session session;
  private Segment latest;
  private boolean isNew;
  private boolean failed;

  Transcript(Session session) {
    this.session = session;
  }

  /**
   * Transcribes up to the next segment. Throws EdgespecException: it was cancelled, or a model failed;
   * it has no more segments.
   */
  @Override
  public boolean hasNext() {
    if (failed) return false;
    if (!isNew && (latest == null || !latest.ended())) {
      try {
        latest = session.nextSegment(this);
      } catch (EdgespecException failure) {
        failed = failure.endsText();
        throw failure;
      }
      isNew = true;
    }
    return !latest.ended();
  }

  @Override
  public Segment next() {
    if (!hasNext()) throw new NoSuchElementException("the transcript has ended");
    isNew = false;
    return latest;
  }

  /** Itself, so that it can stand in a for loop, once. */
  @Override
  public Iterator<Segment> iterator() {
    return this;
  }

  /** The latest segment that was made, or the end; null before the first. */
  public Segment latest() {
    return latest;
  }
}
