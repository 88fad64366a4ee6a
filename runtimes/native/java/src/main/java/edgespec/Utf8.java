package edgespec;

import java.nio.ByteBuffer;
import java.nio.CharBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.Objects;

/** Texts as the library takes them. */
final class Utf8 {
  private Utf8() {}

  /** Throws EdgespecException: the text cannot be written in UTF-8, or the library would cut it. */
  static byte[] of(String text, String what) {
    Objects.requireNonNull(text, what + " is null");
    if (text.indexOf('\0') >= 0) {
      throw new EdgespecException(what + " has the character U+0000; leave it out");
    }
    try {
      ByteBuffer encoded = StandardCharsets.UTF_8.newEncoder().encode(CharBuffer.wrap(text));
      byte[] bytes = new byte[encoded.remaining()];
      encoded.get(bytes);
      return bytes;
    } catch (CharacterCodingException error) {
      throw new EdgespecException(what + " has half of a character; give whole Unicode");
    }
  }

  static String text(byte[] bytes) {
    return new String(bytes, StandardCharsets.UTF_8);
  }
}
