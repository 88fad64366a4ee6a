// A model's chat format as texts around messages: no template language is needed.

import type { Range } from "../core/model.js";
import { shortened, UsageError } from "../errors.js";
import type { ChatFormat } from "./manifest.js";
import type { Message } from "./options.js";

const ROLES = ["system", "user", "assistant"];
// In a text of the format: the date of the request, with strftime's pattern between the marks.
const DATE = /\ue000(.*?)\ue001/g;
// What Python's str.strip() removes, as chat templates do.
const SPACES = "[\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]*";
const AROUND = new RegExp(`^${SPACES}|${SPACES}$`, "g");

/** What a model reads before its next answer, with ranges of characters in it. */
export interface ChatText {
  /** With the chat format's special tokens; a tokenizer must not add its own. */
  readonly text: string;
  /** The earlier answers, each with what the template writes before an earlier answer and leaves to the
   * model for one to be generated (a space). */
  readonly assistantSpans: readonly Range[];
  /** The texts of all messages, in order; everything else is the chat format's. */
  readonly contents: readonly Range[];
}

/** Values of a chat template by name. */
export type TemplateOptions = Readonly<Record<string, unknown>>;

/**
 * The format with values of the template's options; names that it does not read are passed over.
 *
 * @throws UsageError: what the template makes of a value is not known here.
 */
export function withOptions(format: ChatFormat, values: TemplateOptions): ChatFormat {
  if (typeof values !== "object" || values === null || Array.isArray(values))
    throw new UsageError(`chatTemplateKwargs is ${shortened(values)}; give an object, as { enable_thinking: false }`);
  const { options = [], ...plain } = format;
  const forms = options
    .filter(({ name }) => Object.hasOwn(values, name) && values[name] !== undefined)
    .map(({ name, formats }) => {
      const written = JSON.stringify(values[name]);
      if (typeof written === "string" && Object.hasOwn(formats, written)) return formats[written]!;
      throw new UsageError(
        `the template option ${name} is ${shortened(values[name])}, which only the model's own template knows; leave it out, or ask from Python`,
      );
    });
  const changed = forms.filter((form) => !isSame(form, plain));
  if (changed.length > 1)
    throw new UsageError(
      `the template options ${Object.keys(values).join(", ")} are known one by one here; give one of them, or ask from Python`,
    );
  return changed[0] ?? plain;
}

function isSame({ options: _, ...form }: ChatFormat, plain: ChatFormat): boolean {
  const written = (format: ChatFormat) => JSON.stringify(Object.entries(format).sort(([a], [b]) => (a < b ? -1 : 1)));
  return written(form) === written(plain);
}

/**
 * The text of a conversation that a model is to continue.
 *
 * @param messages perhaps a system prompt, then user and assistant in turns; a user's is last.
 * @throws UsageError: other roles or another order, or a conversation that the format does not cover.
 */
export function chatText(format: ChatFormat, messages: readonly Message[]): ChatText {
  const turns = turnsOf(format, messages);
  const now = new Date();
  let text = dated(format.before, now);
  const assistantSpans: Range[] = [];
  const contents: Range[] = [];
  const add = (message: Message) => {
    const start = text.length;
    text += shown(format, message);
    contents.push({ start, end: text.length });
  };
  if (messages[0]!.role === "system") {
    if (format.system == null || format.after_system == null) {
      throw new UsageError("this model's chat format takes no system prompt; say it in the first message");
    }
    text = dated(format.system, now);
    add(messages[0]!);
    text += dated(format.after_system, now);
  }
  for (const [question, answer] of turns) {
    add(question);
    if (answer === undefined) break;
    const start = text.length + leftToModel(format);
    text += dated(format.before_answer ?? "", now);
    add(answer);
    assistantSpans.push({ start, end: text.length });
    text += dated(format.between ?? "", now);
  }
  return { text: text + dated(format.after, now), assistantSpans, contents };
}

/** Index in `before_answer` where the model's own text begins. */
function leftToModel({ before_answer: before, after }: ChatFormat): number {
  return before?.startsWith(after) ? after.length : (before ?? "").length;
}

/** Each user message with its answer; the last one without. */
function turnsOf(format: ChatFormat, messages: readonly Message[]): (readonly [Message, Message?])[] {
  const opened = messages[0]?.role === "system" ? "system+" : "";
  for (const [index, message] of messages.entries()) {
    checkMessage(message, index + 1, format);
    checkOdd(message, index + 1, format, index === 0 ? "" : opened);
  }
  const turns = messages[0]?.role === "system" ? messages.slice(1) : messages;
  if (turns.length % 2 === 0 || turns.some(({ role }, index) => role !== ROLES[1 + (index % 2)])) {
    const roles =
      messages
        .slice(0, 6)
        .map(({ role }) => role)
        .join(", ") || "none";
    throw new UsageError(
      `the messages' roles are ${roles}${messages.length > 6 ? ", …" : ""}; give perhaps a system message, then user and assistant in turns, and a user's last`,
    );
  }
  if (turns.length > 1 && (format.between == null || format.before_answer == null)) {
    throw new UsageError("this model's chat format is known for one message only; give one");
  }
  return turns
    .filter((_, index) => index % 2 === 0)
    .map((message, index) => [message, turns[2 * index + 1]] as [Message, Message?]);
}

function shown(format: ChatFormat, { role, content }: Message): string {
  let text = content;
  const hidden = format.hides ? text.lastIndexOf(format.hides) : -1;
  if (role === "assistant" && hidden >= 0) {
    text = text.slice(hidden + format.hides!.length);
    if (format.hides_newlines) text = text.replace(/^\n+/, "");
  }
  return format.trims?.includes(role) ? text.replace(AROUND, "") : text;
}

function checkMessage(message: Message, number: number, format: ChatFormat): void {
  const fields: Partial<Message> = typeof message === "object" && message !== null ? message : {};
  const { role, content, ...others } = fields;
  if (!ROLES.includes(role ?? "") || typeof content !== "string") {
    throw new UsageError(
      `message ${number} is ${shortened(message)}; give a role (${ROLES.join(", ")}) and a content that is text`,
    );
  }
  const read = Object.keys(others).find((field) => format.reads?.includes(field));
  if (read !== undefined) {
    throw new UsageError(
      `message ${number} has a ${read}, which only the model's own template writes; leave it out, or ask from Python`,
    );
  }
  if (content !== "") checkText(content, `message ${number}`);
}

/** @throws UsageError: the template writes a text of this kind in its own way. */
function checkOdd({ role, content }: Message, number: number, format: ChatFormat, after: string): void {
  const bare = content.replace(AROUND, "");
  const kinds = [
    ...(bare === "" ? ["empty"] : []),
    ...(bare !== content ? ["spaces"] : []),
    ...(/<\/?think>/.test(content) ? ["thinking"] : []),
  ];
  const odd = kinds.find((kind) => format.odd?.includes(`${after}${role}:${kind}`));
  if (odd !== undefined) {
    throw new UsageError(
      `message ${number} has a text (${odd}) that only the model's own template writes; change it, or ask from Python`,
    );
  }
}

/** A text of the format with its dates. */
function dated(text: string, now: Date): string {
  return text.replace(DATE, (_, pattern: string) =>
    pattern.replace(/%(-?[A-Za-z%])/g, (_, name: string) => datePart(name, now)),
  );
}

/** What strftime writes for a part of a pattern, in English. */
function datePart(name: string, now: Date): string {
  const two = (value: number) => String(value).padStart(2, "0");
  const named = (options: Intl.DateTimeFormatOptions) => now.toLocaleDateString("en-US", options);
  const parts: Record<string, () => string> = {
    Y: () => String(now.getFullYear()),
    y: () => two(now.getFullYear() % 100),
    m: () => two(now.getMonth() + 1),
    d: () => two(now.getDate()),
    "-d": () => String(now.getDate()),
    e: () => String(now.getDate()).padStart(2, " "),
    B: () => named({ month: "long" }),
    b: () => named({ month: "short" }),
    A: () => named({ weekday: "long" }),
    a: () => named({ weekday: "short" }),
    H: () => two(now.getHours()),
    M: () => two(now.getMinutes()),
    S: () => two(now.getSeconds()),
    "%": () => "%",
  };
  const part = parts[name];
  if (part === undefined)
    throw new UsageError(`this model's chat format has a date with %${name}, which is not known here; ask from Python`);
  return part();
}

/** @throws UsageError: the text is empty or no Unicode. */
export function checkText(text: string, what: string): void {
  if (text === "") throw new UsageError(`${what} is empty; give some text`);
  const lone = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/.exec(text);
  if (lone !== null) throw new UsageError(`${what} is not Unicode text at character ${lone.index}; give it as UTF-16`);
}
