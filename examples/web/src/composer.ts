// Where a message is written and sent, and an answer stopped.

import { element } from "./page.js";

/** Keyboards on glass have no Shift+Enter: there, Enter begins a new line. */
const TOUCH = matchMedia("(pointer: coarse)");

export class Composer {
  readonly #form = element("composer", HTMLFormElement);
  readonly #prompt = element("prompt", HTMLTextAreaElement);
  readonly #send = element("send", HTMLButtonElement);
  readonly #stop = element("stop", HTMLButtonElement);

  constructor(send: (text: string) => void, stop: () => void) {
    this.#form.addEventListener("submit", (event) => {
      event.preventDefault();
      const text = this.#prompt.value.trim();
      if (text === "" || this.#send.hidden) return;
      this.#prompt.value = "";
      this.#grow();
      send(text);
    });
    this.#stop.addEventListener("click", stop);
    this.#prompt.addEventListener("input", () => this.#grow());
    this.#prompt.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing || TOUCH.matches) return;
      event.preventDefault();
      this.#form.requestSubmit();
    });
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && !this.#stop.hidden) stop();
    });
  }

  /** @param label what is wanted: "Message", "Text to translate". */
  show(label: string): void {
    this.#form.hidden = false;
    element("prompt-label", HTMLLabelElement).textContent = this.#prompt.placeholder = label;
    this.focus();
  }

  hide(): void {
    this.#form.hidden = true;
  }

  /** On glass a focus would open the keyboard over the answer. */
  focus(): void {
    if (!TOUCH.matches) this.#prompt.focus();
  }

  /** While an answer is written, it can be stopped, and the next message typed. */
  setBusy(busy: boolean): void {
    const hadFocus = document.activeElement === this.#stop || document.activeElement === this.#send;
    this.#send.hidden = busy;
    this.#stop.hidden = !busy;
    if (hadFocus) (busy ? this.#stop : this.#prompt).focus();
  }

  #grow(): void {
    this.#prompt.style.height = "auto";
    this.#prompt.style.height = `${this.#prompt.scrollHeight}px`;
  }
}
