// The table of a SentencePiece model that maps characters, as the Rust library reads it.

/**
 * What a table does to a text. Each grapheme of less than six bytes is looked up as a whole, and the
 * characters of others, or of one that is not found, each alone.
 *
 * @param base64 a double array of keys (its size in bytes, then its units, uint32), and the texts that its
 *   values point to, each ended by a zero byte. Null changes nothing.
 */
export function charsMap(base64: string | null): (text: string) => string {
  if (!base64) return (text) => text;
  const bytes = Uint8Array.from(atob(base64), (one) => one.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  const size = view.getUint32(0, true);
  const unit = (index: number) => (4 * index < size ? view.getUint32(4 + 4 * index, true) : 0);
  const texts = bytes.subarray(4 + size);
  const encoder = new TextEncoder();
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  const graphemes = new Intl.Segmenter(undefined, { granularity: "grapheme" });

  /** The text of the shortest key that the bytes begin with; null if there is none. */
  const found = (key: Uint8Array): string | null => {
    let node = offset(unit(0));
    for (const byte of key) {
      if (byte === 0) return null;
      node ^= byte;
      const at = unit(node);
      if ((at & 0x800000ff) >>> 0 !== byte) return null;
      node ^= offset(at);
      if ((at >>> 8) & 1) {
        const start = unit(node) & 0x7fffffff;
        return decoder.decode(texts.subarray(start, texts.indexOf(0, start)));
      }
    }
    return null;
  };
  const character = (one: string) => found(encoder.encode(one)) ?? one;
  const grapheme = (text: string) => {
    const key = encoder.encode(text);
    const whole = key.length < 6 ? found(key) : null;
    return whole ?? Array.from(text, character).join("");
  };
  return (text) => Array.from(graphemes.segment(text), ({ segment }) => grapheme(segment)).join("");
}

function offset(unit: number): number {
  return (unit >>> 10) << ((unit & 0x200) >>> 6);
}
