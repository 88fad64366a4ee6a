// Makes the texts of several prompts at once, and takes the second one out after its first piece.
// Arguments: the pair, ONNX Runtime, prompts of token ids with commas. Prints: TEXT TOKENS ENDING SEED.
import edgespec.AddedText;
import edgespec.Batch;
import edgespec.EdgespecException;
import edgespec.LoadOptions;
import edgespec.Model;
import edgespec.Options;
import edgespec.TextPiece;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

public final class Together {
  public static void main(String[] given) {
    LoadOptions where = new LoadOptions();
    where.onnxruntime = given[1];
    where.threads = 1;
    Model model = new Model(given[0], where);
    try (Batch batch = model.openBatch(given.length - 2)) {
      model.close();
      refused(batch, "range", () -> batch.add(new long[] {999}, new Options()));
      Map<Long, String> seeds = new TreeMap<>();
      Map<Long, List<String>> tokens = new TreeMap<>();
      for (String prompt : Arrays.asList(given).subList(2, given.length)) {
        Options options = new Options();
        options.maxNewTokens = 20;
        options.temperature = 1;
        options.seed = 7L;
        AddedText added = batch.add(longs(prompt), options);
        seeds.put(added.text(), Long.toUnsignedString(added.seed()));
        tokens.put(added.text(), new ArrayList<>());
      }
      refused(batch, "full", () -> batch.add("one more", new Options()));
      for (TextPiece one = batch.next(); one != null; one = batch.next()) {
        List<String> made = tokens.get(one.text());
        String ending = "" + (one.failure() == null ? one.piece().ending() : one.failure().status());
        if (one.failure() == null) {
          for (long token : one.piece().tokens()) made.add(Long.toString(token));
        }
        if (one.text() == 1) batch.cancel(1);
        if (ending.equals("GOES_ON")) continue;
        String list = made.isEmpty() ? "-" : String.join(",", made);
        System.out.println(one.text() + " " + list + " " + ending + " " + seeds.get(one.text()));
      }
    }
  }

  private static void refused(Batch batch, String name, Runnable call) {
    try {
      call.run();
    } catch (EdgespecException failure) {
      if (failure.status() == EdgespecException.Status.USAGE && batch.progress(0) != null) return;
    }
    throw new AssertionError(name);
  }

  private static long[] longs(String written) {
    return Arrays.stream(written.split(",")).mapToLong(Long::parseLong).toArray();
  }
}
