// Transcribes a sound twice: as it is, and with every option. Prints a line for each segment: START END
// LOGPROB TOKENS, of which the tokens have commas; and at the end LANGUAGE SECONDS DRAFTED.
import edgespec.Draft;
import edgespec.EdgespecException;
import edgespec.LoadOptions;
import edgespec.Model;
import edgespec.Segment;
import edgespec.Session;
import edgespec.Transcript;
import edgespec.TranscriptOptions;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.stream.Collectors;

public final class Transcripts {
  public static void main(String[] given) throws IOException {
    LoadOptions where = new LoadOptions();
    where.onnxruntime = given[1];
    where.threads = 1;
    ByteBuffer bytes = ByteBuffer.wrap(Files.readAllBytes(Path.of(given[2])));
    float[] sound = new float[bytes.remaining() / Float.BYTES];
    bytes.order(ByteOrder.LITTLE_ENDIAN).asFloatBuffer().get(sound);
    TranscriptOptions all = new TranscriptOptions();
    all.language = "de";
    all.translate = true;
    all.timestamps = false;
    all.usePrevious = true;
    all.prompt = "Names";
    all.temperatures = new double[] {0, 0.5};
    all.noSpeech = Double.NaN;
    all.minLogprob = -2.5;
    all.maxCompression = 4.5;
    all.draft = Draft.MODEL;
    all.gamma = 3;
    all.seed = 5;
    try (Model model = new Model(given[0], where);
        Session session = model.openSession()) {
      show(session.beginTranscript(sound, new TranscriptOptions()));
      show(session.beginTranscript(sound, all));
      Transcript dropped = session.beginTranscript(sound, all);
      session.beginTranscript(sound, all);
      try {
        dropped.hasNext();
      } catch (IllegalStateException error) {
        System.out.println("dropped");
      }
      Transcript cancelled = session.beginTranscript(sound, all);
      session.cancel();
      try {
        cancelled.hasNext();
      } catch (EdgespecException error) {
        if (cancelled.hasNext()) System.out.println("a cancelled transcript goes on");
      }
      all.language = "xx";
      try {
        session.beginTranscript(sound, all);
      } catch (EdgespecException error) {
        System.out.println(error.getMessage());
      }
    }
  }

  private static void show(Transcript transcript) {
    for (Segment one : transcript) {
      String tokens =
          Arrays.stream(one.tokens()).mapToObj(Long::toString).collect(Collectors.joining(","));
      System.out.println(one.start() + " " + one.end() + " " + one.logprob() + " " + tokens);
    }
    Segment last = transcript.latest();
    System.out.println(last.language() + " " + last.seconds() + " " + last.drafted());
  }
}
