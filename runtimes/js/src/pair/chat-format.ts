// A model's chat format as texts around messages: no template language is needed.

import type { Range } from "../core/model.js";
import { shortened, UsageError } from "../errors.js";
import type { ChatFormat } from "./manifest.js";
import type { Message } from "./options.js";

const ROLES = ["system", "user", "assistant"];
// What Python's str.strip() removes, as chat templates do.
const SPACES = "[\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]*";
const AROUND = new RegExp(`^${SPACES}|${SPACES}$`, "g");

/** What a model reads before its next answer, with ranges of characters in it. */
export interface ChatText {
  /** With the chat format's special tokens; a tokenizer must not add its own. */
  readonly text: string;
  /** The earlier answers, each with what the template writes before an earlier answer and leaves to the
   * model for one to be generated (a space). */
  readonly answers: readonly Range[];
  /** The texts of all messages, in order; everything else is the chat format's. */
  readonly contents: readonly Range[];
}

/**
 * The text of a conversation that a model is to continue.
 *
 * @param messages perhaps a system prompt, then user and assistant in turns; a user's is last.
 * @throws UsageError: other roles or another order, or a conversation that the format does not cover.
 */
export function chatText(format: ChatFormat, messages: readonly Message[]): ChatText {
  const turns = turnsOf(format, messages);
  let text = format.before;
  const answers: Range[] = [];
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
    text = format.system;
    add(messages[0]!);
    text += format.after_system;
  }
  for (const [question, answer] of turns) {
    add(question);
    if (answer === undefined) break;
    const start = text.length + leftToModel(format);
    text += format.before_answer ?? "";
    add(answer);
    answers.push({ start, end: text.length });
    text += format.between ?? "";
  }
  return { text: text + format.after, answers, contents };
}

/** Index in `before_answer` where the model's own text begins. */
function leftToModel({ before_answer: before, after }: ChatFormat): number {
  return before?.startsWith(after) ? after.length : (before ?? "").length;
}

/** Each user message with its answer; the last one without. */
function turnsOf(format: ChatFormat, messages: readonly Message[]): (readonly [Message, Message?])[] {
  for (const [index, message] of messages.entries()) checkMessage(message, index + 1);
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

function checkMessage(message: Message, number: number): void {
  const fields: Partial<Message> = typeof message === "object" && message !== null ? message : {};
  const { role, content, ...others } = fields;
  if (!ROLES.includes(role ?? "") || typeof content !== "string" || Object.keys(others).length > 0) {
    throw new UsageError(
      `message ${number} is ${shortened(message)}; give a role (${ROLES.join(", ")}) and a content that is text, and nothing else`,
    );
  }
  if (content !== "" || role === "user") checkText(content, `message ${number}`); // others may be empty
}

/** @throws UsageError: the text is empty or no Unicode. */
export function checkText(text: string, what: string): void {
  if (text === "") throw new UsageError(`${what} is empty; give some text`);
  const lone = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/.exec(text);
  if (lone !== null) throw new UsageError(`${what} is not Unicode text at character ${lone.index}; give it as UTF-16`);
}
