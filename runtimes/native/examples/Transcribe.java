// Says what is said in a sound, and when: Transcribe PAIR LIBONNXRUNTIME SOUND
// SOUND is raw: ffmpeg -i speech.mp3 -ac 1 -ar 16000 -f f32le speech.f32
import edgespec.EdgespecException;
import edgespec.LoadOptions;
import edgespec.Model;
import edgespec.Segment;
import edgespec.Session;
import edgespec.TranscriptOptions;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;

public final class Transcribe {
  public static void main(String[] given) {
    if (given.length != 3) {
      System.err.println("Transcribe PAIR LIBONNXRUNTIME SOUND");
      System.exit(2);
    }
    LoadOptions where = new LoadOptions();
    where.onnxruntime = given[1];
    try (Model model = new Model(given[0], where);
        Session session = model.openSession()) {
      ByteBuffer bytes = ByteBuffer.wrap(Files.readAllBytes(Path.of(given[2])));
      float[] sound = new float[bytes.remaining() / Float.BYTES];
      bytes.order(ByteOrder.LITTLE_ENDIAN).asFloatBuffer().get(sound);
      for (Segment one : session.beginTranscript(sound, new TranscriptOptions())) {
        System.out.printf(Locale.ROOT, "%.2f %.2f %s%n", one.start(), one.end(), one.text());
      }
    } catch (EdgespecException failure) {
      System.err.println(failure.getMessage());
      System.exit(1);
    } catch (IOException failure) {
      System.err.println(given[2] + " cannot be read");
      System.exit(1);
    }
  }
}
