// Answers a message, as it is generated: Chat PAIR LIBONNXRUNTIME MESSAGE
import edgespec.EdgespecException;
import edgespec.LoadOptions;
import edgespec.Message;
import edgespec.Model;
import edgespec.Options;
import edgespec.Piece;
import edgespec.Session;
import java.util.List;

public final class Chat {
  public static void main(String[] given) {
    if (given.length != 3) {
      System.err.println("Chat PAIR LIBONNXRUNTIME MESSAGE");
      System.exit(2);
    }
    LoadOptions where = new LoadOptions();
    where.onnxruntime = given[1];
    Options how = new Options();
    how.maxNewTokens = 64;

    try (Model model = new Model(given[0], where);
        Session session = model.openSession()) {
      for (Piece piece : session.begin(List.of(Message.user(given[2])), how)) {
        System.out.print(piece.text());
        System.out.flush();
      }
    } catch (EdgespecException failure) {
      System.err.println(failure.getMessage());
      System.exit(1);
    }
  }
}
