// Inputs of the Prompt API as messages of a conversation.

import type { Message } from "../pair/options.js";

interface Content {
  readonly type: string;
  readonly value: unknown;
}

export type PromptInputMessages = readonly {
  readonly role: Message["role"];
  readonly content: string | readonly Content[];
  readonly prefix?: boolean;
}[];

/** @throws DOMException "NotSupportedError": a part is no text, or an answer's beginning is given. */
export function asMessages(input: string | PromptInputMessages): readonly Message[] {
  if (typeof input === "string") return [{ role: "user", content: input }];
  return input.map(({ role, content, prefix = false }) => {
    if (prefix)
      throw new DOMException("an answer's beginning is given as a prefix; ask for it in words", "NotSupportedError");
    return { role, content: typeof content === "string" ? content : content.map(textOf).join("") };
  });
}

function textOf({ type, value }: Content): string {
  if (type === "text" && typeof value === "string") return value;
  throw new DOMException(
    `the input has a part of type ${type}; give text, which is all that this model reads`,
    "NotSupportedError",
  );
}

/** User messages that follow each other, joined by a line break: chat formats know turns only. */
export function merged(messages: readonly Message[]): readonly Message[] {
  const turns: Message[] = [];
  for (const message of messages) {
    const last = turns.at(-1);
    if (last?.role === "user" && message.role === "user")
      turns[turns.length - 1] = { role: "user", content: `${last.content}\n${message.content}` };
    else turns.push(message);
  }
  return turns;
}
