// What goes wrong is an exception of one line, and objects may be closed in any order and by any thread.
import edgespec.Draft;
import edgespec.EdgespecException;
import edgespec.Ending;
import edgespec.LoadOptions;
import edgespec.Message;
import edgespec.Model;
import edgespec.Options;
import edgespec.Progress;
import edgespec.Session;
import edgespec.Text;
import java.util.List;
import java.util.concurrent.CountDownLatch;

public final class Misuse {
  private static final long[] PROMPT = {5, 60, 7};

  public static void main(String[] given) throws InterruptedException {
    LoadOptions where = new LoadOptions();
    where.onnxruntime = given[1];
    where.threads = 1;
    fails("no pair", EdgespecException.Status.ERROR, () -> new Model("/", where));
    Model model = new Model(given[0], where);
    String hard = "h\u00e9 \ud83d\ude00 \u4e2d\n";
    check("round trip", model.decode(model.encode(hard)).equals(hard));
    Session session = model.openSession();
    fails("a zero", EdgespecException.Status.USAGE, () -> session.begin("a\0b", new Options()));
    fails("half", EdgespecException.Status.USAGE, () -> session.begin("\ud83d", new Options()));
    fails("no turns", EdgespecException.Status.USAGE, () -> session.begin(List.<Message>of(), plain()));
    Options hot = plain();
    hot.temperature = -1;
    fails("range", EdgespecException.Status.USAGE, () -> session.begin(PROMPT, hot));
    Options stop = plain();
    stop.stop.add("\ud83d");
    fails("half a stop", EdgespecException.Status.USAGE, () -> session.begin(PROMPT, stop));
    nulls(model, session);

    Text first = session.begin(PROMPT, plain());
    first.next();
    Text second = session.begin(PROMPT, plain());
    try {
      first.next();
      check("a dropped text goes on", false);
    } catch (IllegalStateException expected) {
      check("dropped", true);
    }
    session.cancel();
    fails("cancelled", EdgespecException.Status.CANCELLED, second::next);
    check("a cancelled text has no more", !second.hasNext());

    keptTexts(given, where, model, session);
    model.close();
    model.close();
    session.begin(PROMPT, plain()).forEachRemaining(piece -> {});
    closedWhileItRuns(session);
    check("the end", plainText(given, where).ending() == Ending.MAX_TOKENS);
  }

  /** Null is the defaults, an array with nothing in it, or an exception; the JVM would crash. */
  private static void nulls(Model model, Session session) {
    fails("no options", EdgespecException.Status.ERROR, () -> Model.estimate("", null));
    check("default options", session.begin(PROMPT, null).hasNext());
    Options none = plain();
    none.stopTokens = null;
    check("no stop tokens", session.begin(PROMPT, none).hasNext());
    fails("no tokens", EdgespecException.Status.USAGE, () -> session.begin((long[]) null, plain()));
    fails("no samples", EdgespecException.Status.USAGE, () -> session.beginTranscript(null, null));
    check("nothing", model.decode((long[]) null).isEmpty());
    Options half = plain();
    half.answers = new long[] {1};
    fails("half an answer", EdgespecException.Status.USAGE, () -> session.begin(PROMPT, half));
    fails("fewer than none", EdgespecException.Status.USAGE, () -> model.openBatch(-1));
    try {
      session.begin((String) null, plain());
      check("a text that is null", false);
    } catch (NullPointerException expected) {
      check("null", expected.getMessage().equals("the prompt is null"));
    }
  }

  private static void keptTexts(String[] given, LoadOptions where, Model model, Session session) {
    String prompt = "A few words";
    Text text = session.begin(prompt, plain());
    text.next();
    session.save(given[2]);
    try (Session fork = session.fork();
        Session loaded = model.loadSession(given[2])) {
      String rest = text.rest();
      check("there is a rest", !rest.isEmpty());
      check("fork", fork.rest().rest().equals(rest));
      check("loaded", loaded.rest().rest().equals(rest));
    }
    // The last token is scored with the first of the text.
    int read = model.encode(prompt).length - 1;
    check("progress", session.promptProgress().equals(new Progress(read, read)));
    check("estimate", Model.estimate(given[0], where).weights() > 0);
    fails("no file", EdgespecException.Status.USAGE, () -> model.loadSession("/nowhere"));
    fails("no folder", EdgespecException.Status.ERROR, () -> session.save("/nowhere/session"));
  }

  private static void closedWhileItRuns(Session session) throws InterruptedException {
    CountDownLatch running = new CountDownLatch(1);
    Thread worker =
        new Thread(
            () -> {
              try {
                while (true) {
                  session.begin(PROMPT, plain()).forEachRemaining(piece -> running.countDown());
                }
              } catch (IllegalStateException closed) {
                check("closed", closed.getMessage().equals("the session is closed; open another one"));
              }
            });
    worker.start();
    running.await();
    session.close();
    worker.join();
  }

  private static Text plainText(String[] given, LoadOptions where) {
    try (Model model = new Model(given[0], where);
        Session session = model.openSession()) {
      Text text = session.begin(PROMPT, plain());
      text.rest();
      return text;
    }
  }

  private static Options plain() {
    Options options = new Options();
    options.draft = Draft.NONE;
    options.maxNewTokens = 8;
    options.ignoreEos = true;
    return options;
  }

  private static void fails(String name, EdgespecException.Status status, Runnable call) {
    try {
      call.run();
    } catch (EdgespecException failure) {
      check(name, failure.status() == status && !failure.getMessage().contains("\n"));
      return;
    }
    check(name, false);
  }

  private static void check(String name, boolean holds) {
    if (!holds) throw new AssertionError(name);
    System.out.println(name);
  }
}
