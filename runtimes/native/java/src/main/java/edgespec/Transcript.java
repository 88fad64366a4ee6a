package edgespec;

import java.util.Iterator;
import java.util.NoSuchElementException;

/** The segments of a transcript, made as they are asked for. */
public final class Transcript implements Iterator<Segment>, Iterable<Segment> {
  private final Session session;
  private Segment latest;
  private boolean isNew;

  Transcript(Session session) {
    this.session = session;
  }

  /** Transcribes up to the next segment. Throws EdgespecException: it was cancelled, or a model failed. */
  @Override
  public boolean hasNext() {
    if (!isNew && (latest == null || !latest.ended())) {
      latest = session.nextSegment(this);
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
