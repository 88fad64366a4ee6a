// An answer: its text, why it ended, how fast it was, and what can be done with it.

import type { Ending, Figures, Prompt } from "./messages.js";
import { fromTemplate, part } from "./page.js";
import { gain, speed } from "./speed.js";
import { WrittenText } from "./written-text.js";

const COPIED_MS = 2000;

/** What the page does for an answer. */
export interface AnswerActions {
  readonly goOn: () => void;
  readonly compare: (answer: Answer) => void;
}

export class Answer {
  readonly shown = fromTemplate("answer-template");
  readonly prompt: Prompt;
  readonly #actions: AnswerActions;
  readonly #written: WrittenText;
  #figures: Figures | null = null;
  #tokenIds: readonly number[] = [];

  /** @param writer the model's name. @param formats its text is Markdown. */
  constructor(prompt: Prompt, writer: string, formats: boolean, actions: AnswerActions) {
    this.prompt = prompt;
    this.#actions = actions;
    this.#written = new WrittenText(this.#part("text"), formats);
    this.#part("writer").textContent = writer;
    this.#listen();
  }

  get text(): string {
    return this.#written.text;
  }

  get tokenIds(): readonly number[] {
    return this.#tokenIds;
  }

  get figures(): Figures | null {
    return this.#figures;
  }

  add(text: string, drafted: boolean, figures: Figures): void {
    this.#figures = figures;
    this.#written.add(text, drafted);
  }

  /** Shows how fast it was; `plain` is plain decoding's tokens/s, where known. */
  showFigures(plain: number | null): void {
    if (this.#figures === null) return;
    const { tokens, tokensPerSecond, drafted } = this.#figures;
    const said = [
      tokens === 1 ? "1 token" : `${tokens} tokens`,
      speed(tokensPerSecond),
      gain(tokensPerSecond, plain),
      drafted > 0 ? `${Math.round(100 * drafted)} % drafted` : null,
    ];
    this.#part("figures").textContent = said.filter((figure) => figure !== null).join(" · ");
  }

  /** The text is written, as far as it will be for now. */
  end(ending: Ending, tokenIds: readonly number[], figures: Figures): void {
    this.#tokenIds = tokenIds;
    this.#figures = figures;
    this.#part("actions").hidden = false;
    this.#button("marks").hidden = figures.drafted === 0;
    this.#note(noteOn(ending, tokenIds.length));
    this.#button("continue").hidden = ending !== "waits";
    this.#button("compare").hidden = ending === "waits" || tokenIds.length === 0;
  }

  /** Another text begins, so this one is not continued any more. */
  close(): void {
    this.#button("continue").hidden = true;
    this.#button("compare").hidden = this.#tokenIds.length === 0;
  }

  /** Keeps what needs the model from being clicked while it is busy. */
  disable(disabled: boolean): void {
    this.#button("continue").disabled = this.#button("compare").disabled = disabled;
  }

  showComparing(tokens: number): void {
    this.#note(`Plain decoding: ${tokens} of ${this.#tokenIds.length} tokens…`);
  }

  showCompared(differsAt: number | null, plain: number | null): void {
    if (differsAt !== null) {
      this.#note(`Plain decoding writes another text from token ${differsAt + 1} on.`);
      return;
    }
    const by = gain(this.#figures?.tokensPerSecond ?? null, plain);
    const measured = by === null ? "" : ` at ${speed(plain)}. With the draft: ${by}`;
    this.#note(`Plain decoding wrote the same ${this.#tokenIds.length} tokens${measured}.`);
    this.#button("compare").hidden = true;
  }

  showNote(text: string): void {
    this.#note(text);
  }

  #note(text: string): void {
    const note = this.#part("note");
    note.textContent = text;
    note.hidden = text === "";
  }

  #listen(): void {
    const copy = this.#button("copy");
    copy.addEventListener("click", () => void this.#copy(copy));
    const marks = this.#button("marks");
    marks.addEventListener("click", () => {
      const pressed = marks.getAttribute("aria-pressed") !== "true";
      marks.setAttribute("aria-pressed", String(pressed));
      this.#written.mark(pressed);
    });
    this.#button("continue").addEventListener("click", () => {
      this.#note("");
      this.#button("continue").hidden = true;
      this.#actions.goOn();
    });
    this.#button("compare").addEventListener("click", () => this.#actions.compare(this));
  }

  async #copy(button: HTMLButtonElement): Promise<void> {
    const label = part(button, "label", HTMLElement);
    try {
      await navigator.clipboard.writeText(this.text);
      label.textContent = "Copied";
    } catch {
      label.textContent = "The browser refused";
    }
    setTimeout(() => (label.textContent = "Copy"), COPIED_MS);
  }

  #part(name: string): HTMLElement {
    return part(this.shown, name, HTMLElement);
  }

  #button(name: string): HTMLButtonElement {
    return part(this.shown, name, HTMLButtonElement);
  }
}

function noteOn(ending: Ending, tokens: number): string {
  switch (ending) {
    case "waits":
      return `Stopped at ${tokens} tokens.`;
    case "stopped":
      return tokens === 0 ? "Stopped before the first word." : "Stopped.";
    case "capacity":
      return "The model has no room for more. Begin a new chat.";
    default:
      return "";
  }
}
