// The text of an answer, as its tokens come: formatted, or with the drafted tokens marked.

import { htmlOf } from "./markdown.js";

/** A run of tokens of one kind. */
interface Run {
  readonly drafted: boolean;
  text: string;
}

export class WrittenText {
  readonly #shown: HTMLElement;
  readonly #formats: boolean;
  readonly #runs: Run[] = [];
  #marks = false;
  #scheduled = false;

  /** @param formats the text is Markdown. */
  constructor(shown: HTMLElement, formats: boolean) {
    this.#shown = shown;
    this.#formats = formats;
  }

  get text(): string {
    return this.#runs.map(({ text }) => text).join("");
  }

  add(text: string, drafted: boolean): void {
    const last = this.#runs.at(-1);
    if (last?.drafted === drafted) last.text += text;
    else this.#runs.push({ drafted, text });
    this.#schedule();
  }

  /** Marks the tokens that were drafted, or shows the text as it is read. */
  mark(marks: boolean): void {
    this.#marks = marks;
    this.#render();
  }

  /** At most once a picture. */
  #schedule(): void {
    if (this.#scheduled) return;
    this.#scheduled = true;
    requestAnimationFrame(() => {
      this.#scheduled = false;
      this.#render();
    });
  }

  #render(): void {
    const formatted = this.#formats && !this.#marks;
    this.#shown.classList.toggle("formatted", formatted);
    if (formatted) this.#shown.innerHTML = htmlOf(this.text);
    else this.#shown.replaceChildren(...this.#runs.map((run) => this.#shownRun(run)));
  }

  #shownRun({ drafted, text }: Run): Node {
    if (!drafted || !this.#marks) return document.createTextNode(text);
    const mark = document.createElement("mark");
    mark.textContent = text;
    return mark;
  }
}
