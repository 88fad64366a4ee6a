// The choice of a pair: cards of what the site offers, an address, or files of one's own.

import { filesOfDrop } from "./dropped-files.js";
import type { Where } from "./messages.js";
import { absolute, nameOf, type Offer } from "./offers.js";
import { element, fromTemplate, part } from "./page.js";

/** What was chosen. */
export interface Choice {
  readonly name: string;
  readonly where: Where;
  readonly purpose: string;
  readonly samples: readonly string[];
}

/** What happens at a click. */
export interface PickerActions {
  readonly open: (choice: Choice) => void;
  readonly cancel: () => void;
  readonly forget: (url: string) => void;
}

export class Picker {
  readonly #section = element("picker", HTMLElement);
  readonly #loading = element("loading", HTMLElement);
  readonly #cards = new Map<string, HTMLElement>();
  readonly #actions: PickerActions;

  constructor(actions: PickerActions) {
    this.#actions = actions;
    element("own-address", HTMLFormElement).addEventListener("submit", (event) => {
      event.preventDefault();
      const url = absolute(element("address", HTMLInputElement).value);
      this.#open({ name: nameOf(url), where: url });
    });
    element("files", HTMLInputElement).addEventListener("change", ({ target }) => {
      const files = [...((target as HTMLInputElement).files ?? [])];
      this.#openFiles(new Map(files.map((file) => [file.webkitRelativePath || file.name, file])));
    });
    element("cancel", HTMLButtonElement).addEventListener("click", () => actions.cancel());
    this.#takeDrops();
  }

  get isShown(): boolean {
    return !this.#section.hidden;
  }

  show(shown: boolean): void {
    this.#section.hidden = !shown;
  }

  offer(offers: readonly Offer[]): void {
    element("cards", HTMLUListElement).replaceChildren(...offers.map((offer) => this.#card(offer)));
    element("other", HTMLDetailsElement).open = offers.length === 0;
  }

  /** Marks what opens without a download. */
  markKept(urls: readonly string[]): void {
    for (const [url, card] of this.#cards) {
      const kept = urls.includes(url);
      card.classList.toggle("kept", kept);
      part(card, "kept", HTMLElement).hidden = part(card, "forget", HTMLButtonElement).hidden = !kept;
    }
  }

  /** Shows the download of a pair, or, without a name, the cards. */
  showLoading(name: string | null): void {
    this.#loading.hidden = name === null;
    element("choices", HTMLElement).inert = name !== null;
    if (name === null) return;
    element("loading-name", HTMLElement).textContent = `Opening ${name}`;
    this.showProgress(0, 0);
    element("cancel", HTMLButtonElement).focus();
  }

  showProgress(loaded: number, total: number): void {
    const bar = element("progress", HTMLProgressElement);
    if (total === 0 || loaded === total) bar.removeAttribute("value");
    else bar.value = loaded / total;
    const whole = total > 0 && loaded === total;
    element("loading-bytes", HTMLElement).textContent = whole
      ? "All files are here. Opening and, the first time, measuring the model…"
      : total > 0
        ? `${megabytes(loaded)} of ${megabytes(total)}`
        : "Looking what is there…";
  }

  #card(offer: Offer): HTMLElement {
    const card = fromTemplate("card-template");
    part(card, "name", HTMLElement).textContent = offer.name;
    part(card, "purpose", HTMLElement).textContent = offer.purpose;
    part(card, "size", HTMLElement).textContent = offer.bytes === null ? "" : megabytes(offer.bytes);
    const open = part(card, "open", HTMLButtonElement);
    open.setAttribute("aria-label", `Open ${offer.name}`);
    open.addEventListener("click", () => this.#open({ ...offer, where: offer.url }));
    const forget = part(card, "forget", HTMLButtonElement);
    forget.setAttribute("aria-label", `Remove ${offer.name} from this device`);
    forget.addEventListener("click", () => this.#actions.forget(offer.url));
    this.#cards.set(offer.url, card);
    return card;
  }

  #openFiles(files: ReadonlyMap<string, File>): void {
    if (files.size > 0) this.#open({ name: nameOf([...files.keys()][0]!.split("/")[0]!), where: files });
  }

  #open({ name, where, purpose = "", samples = [] }: Pick<Choice, "name" | "where"> & Partial<Choice>): void {
    if (this.#loading.hidden) this.#actions.open({ name, where, purpose, samples });
  }

  #takeDrops(): void {
    const mark = (dropping: boolean): boolean => document.body.classList.toggle("dropping", dropping);
    document.addEventListener("dragover", (event) => {
      event.preventDefault();
      mark(true);
    });
    document.addEventListener("dragleave", () => mark(false));
    document.addEventListener("drop", (event) => {
      event.preventDefault();
      mark(false);
      if (event.dataTransfer) void filesOfDrop(event.dataTransfer).then((files) => this.#openFiles(files));
    });
  }
}

export function megabytes(bytes: number): string {
  return `${(bytes / 1e6).toFixed(0)} MB`;
}
