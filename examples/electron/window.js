// The page: one conversation, tokens of the draft marked.

const form = document.querySelector("form");
const answers = document.querySelector("#answers");
const status = document.querySelector("#status");
const send = document.querySelector("#send");

const heard = {
  ready: ({ speculates }) =>
    waiting(speculates ? "Ready." : "Ready; without drafts, since this machine does not verify exactly."),
  chunk({ text, drafted }) {
    const part = document.createElement(drafted ? "mark" : "span");
    part.textContent = text;
    answers.append(part);
  },
  done: ({ tokens, accepted, tokensPerSecond }) =>
    waiting(`${tokens} tokens, ${accepted} of them drafted, ${tokensPerSecond.toFixed(1)} tokens/s.`),
  stopped: () => waiting("Stopped."),
  failed: ({ message }) => waiting(message),
};

function waiting(text) {
  status.textContent = text;
  send.disabled = false;
}

globalThis.pair.onMessage(({ type, ...given }) => heard[type](given));
document.querySelector("#stop").addEventListener("click", () => globalThis.pair.stop());
form.addEventListener("submit", (event) => {
  event.preventDefault();
  const text = form.elements.text.value;
  answers.append(`${answers.hasChildNodes() ? "\n\n" : ""}${text}\n`);
  form.reset();
  send.disabled = true;
  status.textContent = "Answering…";
  globalThis.pair.send(text);
});
