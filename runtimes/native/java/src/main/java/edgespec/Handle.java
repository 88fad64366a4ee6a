package edgespec;

import java.util.function.LongConsumer;

/** An object of the library. It is freed when it is closed and no thread's call uses it any more. */
final class Handle implements AutoCloseable {
  private final String name;
  private final LongConsumer free;
  private final long address;
  private int users;
  private boolean closed;
  private boolean freed;

  Handle(String name, long address, LongConsumer free) {
    this.name = name;
    this.address = address;
    this.free = free;
  }

  /** The address, for one call; {@link #release} follows. Throws if the object is closed. */
  synchronized long acquire() {
    if (closed) throw new IllegalStateException("the " + name + " is closed; open another one");
    users++;
    return address;
  }

  synchronized void release() {
    users--;
    freeIfUnused();
  }

  @Override
  public synchronized void close() {
    closed = true;
    freeIfUnused();
  }

  private void freeIfUnused() {
    if (!closed || users > 0 || freed) return;
    freed = true;
    free.accept(address);
  }
}
