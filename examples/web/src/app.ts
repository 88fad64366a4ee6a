// The page: what is chosen, asked and answered. What computes is in worker.ts.

import type { Answer } from "./answer.js";
import { Composer } from "./composer.js";
import { Conversation, type Model } from "./conversation.js";
import type { Ending, FromWorker, Opened, ToWorker } from "./messages.js";
import { offeredPairs } from "./offers.js";
import { element } from "./page.js";
import { type Choice, Picker } from "./picker.js";
import { gain, speed } from "./speed.js";

const worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
const picker = new Picker({ open, cancel: stop, forget });
const conversation = new Conversation(ask, { goOn, compare });
const composer = new Composer(ask, stop);
const [newChat, models] = [element("new-chat", HTMLButtonElement), element("models", HTMLButtonElement)];

let choice: Choice | null = null;
let model: Model | null = null;
/** The answer that is written or compared. */
let current: Answer | null = null;
/** Tokens/s of plain decoding with this pair, once it is measured. */
let plain: number | null = null;
let offered: readonly string[] = [];

worker.onmessage = ({ data }: MessageEvent<FromWorker>) => receive(data);
worker.onerror = ({ message }) => failed(message || "the worker could not be started; reload the page");
newChat.addEventListener("click", () => model && begin(model));
models.addEventListener("click", () => {
  say("");
  showPicker(!picker.isShown);
});

function send(message: ToWorker): void {
  worker.postMessage(message);
}

function receive(message: FromWorker): void {
  switch (message.type) {
    case "progress":
      return picker.showProgress(message.loaded, message.total);
    case "loaded":
      return loaded(message);
    case "chunk":
      return conversation.follow(() => {
        current!.add(message.text, message.drafted, message.figures);
        showSpeed();
      });
    case "ended":
      return ended(message);
    case "comparing":
      return current?.showComparing(message.tokens);
    case "compared":
      current?.showCompared(message.differsAt, message.tokensPerSecond);
      plain ??= message.tokensPerSecond;
      announce(message.differsAt === null ? "Both texts are the same." : "The two texts differ.");
      return ready("Compared.");
    case "plain":
      plain = message.tokensPerSecond;
      return showSpeed();
    case "kept":
      return picker.markKept(message.urls);
    case "aborted":
      current?.showNote("");
      return ready("Stopped.");
    case "failed":
      return failed(message.message);
  }
}

function open(chosen: Choice): void {
  if (current !== null) return;
  void navigator.storage?.persist?.(); // else a browser may drop what it keeps when it is short of room
  [choice, model, plain] = [chosen, null, null];
  newChat.hidden = models.hidden = true;
  picker.showLoading(chosen.name);
  say("");
  send({ type: "load", where: chosen.where });
}

function loaded({ chats, encodes, speculates, seconds }: Opened): void {
  const { name, purpose, samples } = choice!;
  model = { name, purpose, samples, chats, speculates };
  begin(model);
  picker.showLoading(null);
  models.hidden = false;
  newChat.textContent = chats ? "New chat" : "Clear";
  composer.show(chats ? "Message" : encodes ? "Text to translate" : "Text to continue");
  showPicker(false);
  say(`Loaded in ${seconds.toFixed(1)} s. It is kept: the next visit needs no network.`);
  askWhatIsKept();
}

function begin(chosen: Model): void {
  if (current !== null) return;
  conversation.begin(chosen);
  element("speed", HTMLElement).textContent = "";
  say("");
  composer.focus();
}

function ask(text: string): void {
  if (current !== null || model === null) return;
  current = conversation.ask(text);
  busy();
  send({ type: "answer", prompt: current.prompt });
}

function goOn(): void {
  current = conversation.latest;
  busy();
  send({ type: "continue" });
}

function compare(answer: Answer): void {
  if (current !== null) return;
  current = answer;
  busy("Comparing…");
  send({ type: "compare", prompt: answer.prompt, tokenIds: answer.tokenIds });
}

function stop(): void {
  send({ type: "stop" });
}

function ended({ ending, tokenIds, figures }: Extract<FromWorker, { type: "ended" }>): void {
  const answer = current!;
  conversation.follow(() => {
    answer.end(ending, tokenIds, figures);
    showSpeed();
  });
  announce(`${spoken(ending)} ${answer.text}`);
  ready(ending === "stopped" ? "Stopped." : "Done.");
}

function spoken(ending: Ending): string {
  return ending === "waits" ? "Answer so far:" : "Answer:";
}

function failed(message: string): void {
  current?.showNote(message);
  ready(message);
}

/** A text is being written or compared. */
function busy(what = "Writing…"): void {
  composer.setBusy(true);
  conversation.disable(true);
  newChat.disabled = models.disabled = true;
  say(what);
}

function ready(status: string): void {
  current = null;
  composer.setBusy(false);
  conversation.disable(false);
  newChat.disabled = models.disabled = false;
  if (model === null) {
    picker.showLoading(null);
    showPicker(true);
    askWhatIsKept();
  }
  say(status);
}

/** The figures of the latest answer, below it and beside the composer. */
function showSpeed(): void {
  const answer = conversation.latest;
  const figures = answer?.figures;
  if (!answer || !figures) return;
  answer.showFigures(plain);
  const said = [gain(figures.tokensPerSecond, plain), speed(figures.tokensPerSecond)];
  element("speed", HTMLElement).textContent = said.filter((figure) => figure !== null).join(" · ");
}

function showPicker(shown: boolean): void {
  picker.show(shown);
  conversation.show(!shown);
  models.textContent = shown ? "Back to the chat" : "Models";
  newChat.hidden = element("speed", HTMLElement).hidden = shown;
  if (shown) composer.hide();
  else composer.show(element("prompt", HTMLTextAreaElement).placeholder);
  scrollTo({ top: shown ? 0 : document.documentElement.scrollHeight });
}

function forget(url: string): void {
  send({ type: "forget", url });
  askWhatIsKept();
}

function askWhatIsKept(): void {
  send({ type: "kept", urls: offered });
}

function say(text: string): void {
  element("status", HTMLElement).textContent = text;
}

/** Reads it out; what is written token by token is not. */
function announce(text: string): void {
  element("announcer", HTMLElement).textContent = text;
}

async function offer(): Promise<void> {
  const offers = await offeredPairs();
  picker.offer(offers);
  offered = offers.map(({ url }) => url);
  askWhatIsKept();
}

void offer();
void navigator.serviceWorker?.register("service-worker.js");
