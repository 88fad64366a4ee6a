// Canonical JSON of a manifest: keys sorted, no white space, numbers spelled as in the file.
//
// `JSON.parse` forgets how a number was spelled, and "0.0" and "0" have different digests.

const TOKEN = /[[\]{},:]|"(?:[^"\\]|\\.)*"|[^\s[\]{},:"]+/gy;
const SPACE = /\s*/gy;

/**
 * The canonical JSON of an object without some of its keys.
 *
 * @param text JSON that `JSON.parse` accepts, of an object.
 * @param without keys of the object itself that are left out.
 */
export function canonicalJson(text: string, without: readonly string[]): string {
  return new Reader(text).object(new Set(without));
}

class Reader {
  #next = 0;

  constructor(readonly text: string) {}

  /** The canonical text of an object, which is next. */
  object(without: ReadonlySet<string> = new Set()): string {
    const members: [key: string, value: string][] = [];
    this.#items("{", "}", () => {
      const key = JSON.parse(this.#token()) as string;
      this.#token(); // the colon
      members.push([key, this.#value()]);
    });
    members.sort(([a], [b]) => (a < b ? -1 : 1));
    const kept = members.filter(([key]) => !without.has(key));
    return `{${kept.map(([key, value]) => `${JSON.stringify(key)}:${value}`).join()}}`;
  }

  #array(): string {
    const values: string[] = [];
    this.#items("[", "]", () => values.push(this.#value()));
    return `[${values.join()}]`;
  }

  #value(): string {
    const first = this.#peek();
    if (first === "{") return this.object();
    if (first === "[") return this.#array();
    const token = this.#token();
    return first.startsWith('"') ? JSON.stringify(JSON.parse(token)) : token;
  }

  #items(open: string, close: string, item: () => void): void {
    if (this.#token() !== open) throw new SyntaxError(`no ${open}`);
    while (this.#peek() !== close) {
      item();
      if (this.#peek() === ",") this.#token();
    }
    this.#token();
  }

  #token(): string {
    const token = this.#peek();
    this.#next = TOKEN.lastIndex;
    return token;
  }

  #peek(): string {
    SPACE.lastIndex = this.#next;
    SPACE.test(this.text);
    TOKEN.lastIndex = SPACE.lastIndex;
    const found = TOKEN.exec(this.text);
    if (found === null) throw new SyntaxError("the text ends early");
    return found[0];
  }
}
