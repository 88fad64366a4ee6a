package edgespec;

import java.util.Iterator;
import java.util.NoSuchElementException;

/** The pieces of a text, made as they are asked for. The last one has the ending. */
public final class Text implements Iterator<Piece>, Iterable<Piece> {
  private final Session session;
  private final long seed;
  private Ending ending = Ending.GOES_ON;
  private boolean failed;

  Text(Session session, long seed) {
    this.session = session;
    this.seed = seed;
  }

  @Override
  public boolean hasNext() {
    return ending == Ending.GOES_ON && !failed;
  }

  /** Throws EdgespecException: the text was cancelled, or a model failed; it has no more pieces. */
  @Override
  public Piece next() {
    if (!hasNext()) throw new NoSuchElementException("the text has ended");
    try {
      Piece piece = session.next(this);
      ending = piece.ending();
      return piece;
    } catch (EdgespecException failure) {
      failed = failure.endsText();
      throw failure;
    }
  }

  /** Itself, so that it can stand in a for loop, once. */
  @Override
  public Iterator<Piece> iterator() {
    return this;
  }

  /** The whole text that is still to come. */
  public String rest() {
    StringBuilder rest = new StringBuilder();
    while (hasNext()) rest.append(next().text());
    return rest.toString();
  }

  /** Draws the same text again. */
  public long seed() {
    return seed;
  }

  /** Why it ended; GOES_ON until then, and where it failed. */
  public Ending ending() {
    return ending;
  }
}
