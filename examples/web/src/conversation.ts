// The conversation: messages on one side, answers on the other, and samples while there are none.

import { Answer, type AnswerActions } from "./answer.js";
import type { Message, Prompt } from "./messages.js";
import { element, fromTemplate, part } from "./page.js";

/** Closer to the page's end than this, it follows the text that is written. */
const FOLLOWS_PX = 120;

/** The model that answers. */
export interface Model {
  readonly name: string;
  readonly purpose: string;
  readonly samples: readonly string[];
  readonly chats: boolean;
  /** Drafting is exact on this device. */
  readonly speculates: boolean;
}

export class Conversation {
  readonly #section = element("chat", HTMLElement);
  readonly #log = element("log", HTMLElement);
  readonly #welcome = element("welcome", HTMLElement);
  readonly #actions: AnswerActions;
  readonly #ask: (text: string) => void;
  #model: Model | null = null;
  #answers: { readonly asked: string; readonly answer: Answer }[] = [];

  /** @param ask what a sample does when it is clicked. */
  constructor(ask: (text: string) => void, actions: AnswerActions) {
    this.#ask = ask;
    this.#actions = actions;
  }

  get isEmpty(): boolean {
    return this.#answers.length === 0;
  }

  get latest(): Answer | null {
    return this.#answers.at(-1)?.answer ?? null;
  }

  show(shown: boolean): void {
    this.#section.hidden = !shown;
  }

  /** Begins anew, with this model. */
  begin(model: Model): void {
    this.#model = model;
    this.#answers = [];
    this.#log.replaceChildren();
    this.#welcome.hidden = false;
    element("welcome-name", HTMLElement).textContent = model.name;
    element("welcome-purpose", HTMLElement).textContent = model.purpose;
    element("exactness", HTMLElement).textContent = model.speculates
      ? "Drafting was found exact on this device: every answer is the model's own."
      : "This model is not row-invariant on this device, so it decodes without a draft.";
    element("samples", HTMLUListElement).replaceChildren(...model.samples.map((text) => this.#sample(text)));
  }

  /** Adds a message, and an answer that is still empty. */
  ask(text: string): Answer {
    const model = this.#model!;
    this.#welcome.hidden = true;
    this.latest?.close();
    const answer = new Answer(this.#promptWith(text), model.name, model.chats, this.#actions);
    this.#answers.push({ asked: text, answer });
    const message = fromTemplate("message-template");
    part(message, "text", HTMLElement).textContent = text;
    this.#log.append(message, answer.shown);
    scrollTo({ top: document.documentElement.scrollHeight });
    return answer;
  }

  /** Keeps what needs the model from being clicked while it is busy. */
  disable(disabled: boolean): void {
    for (const { answer } of this.#answers) answer.disable(disabled);
  }

  /** Runs a change of the latest answer, and follows it, unless the reader has gone up to read. */
  follow(change: () => void): void {
    const page = document.documentElement;
    const follows = page.scrollHeight - scrollY - innerHeight < FOLLOWS_PX;
    change();
    if (follows) requestAnimationFrame(() => scrollTo({ top: page.scrollHeight }));
  }

  /** What the model is asked: a text, or the conversation so far; turns without an answer are left out. */
  #promptWith(text: string): Prompt {
    if (!this.#model!.chats) return text;
    const earlier = this.#answers.filter(({ answer }) => answer.text.trim() !== "");
    const messages = earlier.flatMap(({ asked, answer }): Message[] => [
      { role: "user", content: asked },
      { role: "assistant", content: answer.text },
    ]);
    return [...messages, { role: "user", content: text }];
  }

  #sample(text: string): HTMLElement {
    const sample = fromTemplate("sample-template");
    const button = part(sample, "text", HTMLButtonElement);
    button.textContent = text;
    button.addEventListener("click", () => this.#ask(text));
    return sample;
  }
}
