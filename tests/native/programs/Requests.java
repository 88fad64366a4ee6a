// Makes the texts that its input asks for, a line each: PROMPT NAME=VALUE…
// PROMPT is token ids with commas. Prints: TOKENS ENDING SEED LOGPROBS, of which lists have commas.
import edgespec.Draft;
import edgespec.LoadOptions;
import edgespec.Model;
import edgespec.Options;
import edgespec.Piece;
import edgespec.Rule;
import edgespec.Session;
import edgespec.Text;
import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Scanner;

public final class Requests {
  public static void main(String[] given) throws ReflectiveOperationException {
    LoadOptions where = new LoadOptions();
    where.onnxruntime = given[1];
    where.threads = 1;
    try (Model model = new Model(given[0], where);
        Session session = model.openSession()) {
      Scanner lines = new Scanner(System.in);
      while (lines.hasNextLine()) answer(session, lines.nextLine().split(" "));
    }
  }

  private static void answer(Session session, String[] asked) throws ReflectiveOperationException {
    Options options = new Options();
    for (String one : Arrays.asList(asked).subList(1, asked.length)) {
      Field field = Options.class.getField(one.substring(0, one.indexOf('=')));
      field.set(options, value(field, one.substring(one.indexOf('=') + 1)));
    }
    Text text = session.begin(longs(asked[0]), options);
    List<String> tokens = new ArrayList<>();
    List<String> logprobs = new ArrayList<>();
    for (Piece piece : text) {
      for (long token : piece.tokens()) tokens.add(Long.toString(token));
      for (double logprob : piece.logprobs()) logprobs.add(Double.toString(logprob));
    }
    String lists = String.join(",", tokens) + " " + text.ending();
    System.out.println(
        lists + " " + Long.toUnsignedString(text.seed()) + " " + String.join(",", logprobs));
  }

  private static Object value(Field field, String written) {
    switch (field.getName()) {
      case "stopTokens":
        return longs(written);
      case "logitBias":
        String[] bias = written.split(":");
        return Map.of(Long.valueOf(bias[0]), Double.valueOf(bias[1]));
      case "draft":
        return Draft.valueOf(written);
      case "rule":
        return Rule.valueOf(written);
      case "seed":
        return Long.parseUnsignedLong(written);
      default:
        if (field.getType() == double.class) return Double.valueOf(written);
        if (field.getType() == boolean.class) return Boolean.valueOf(written);
        return Long.valueOf(written);
    }
  }

  private static long[] longs(String written) {
    return Arrays.stream(written.split(",")).mapToLong(Long::parseLong).toArray();
  }
}
