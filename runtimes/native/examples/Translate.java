// Goes on from a text, or translates it: Translate PAIR LIBONNXRUNTIME TEXT
import edgespec.EdgespecException;
import edgespec.LoadOptions;
import edgespec.Model;
import edgespec.Options;
import edgespec.Piece;
import edgespec.Session;

public final class Translate {
  public static void main(String[] given) {
    if (given.length != 3) {
      System.err.println("Translate PAIR LIBONNXRUNTIME TEXT");
      System.exit(2);
    }
    LoadOptions where = new LoadOptions();
    where.onnxruntime = given[1];
    Options how = new Options();
    how.maxNewTokens = 64;

    try (Model model = new Model(given[0], where);
        Session session = model.openSession()) {
      for (Piece piece : session.begin(given[2], how)) {
        System.out.print(piece.text());
        System.out.flush();
      }
    } catch (EdgespecException failure) {
      System.err.println(failure.getMessage());
      System.exit(1);
    }
  }
}
