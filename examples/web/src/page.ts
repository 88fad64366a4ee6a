// Elements of the page by their ids, and parts that its templates hold.

/** @throws Error: the page has no such element, or another kind of one. */
export function element<T extends HTMLElement>(id: string, kind: new () => T): T {
  return checked(document.getElementById(id), kind, id);
}

/** What a template holds, to be added to the page. */
export function fromTemplate(id: string): HTMLElement {
  const { content } = element(id, HTMLTemplateElement);
  return document.importNode(content, true).firstElementChild as HTMLElement;
}

/** The part of an element that is marked `data-part="name"`. */
export function part<T extends HTMLElement>(inside: HTMLElement, name: string, kind: new () => T): T {
  return checked(inside.querySelector(`[data-part="${name}"]`), kind, name);
}

function checked<T extends HTMLElement>(found: Element | null, kind: new () => T, name: string): T {
  if (found instanceof kind) return found;
  throw new Error(`the page has no ${name}`);
}
