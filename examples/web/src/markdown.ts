// What a model writes, as HTML: none of its own, and no pictures, which would be fetched from elsewhere.

import MarkdownIt from "markdown-it";

const markdown = new MarkdownIt({ html: false, breaks: true }).disable("image");

export function htmlOf(text: string): string {
  return markdown.render(text);
}
