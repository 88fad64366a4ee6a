// The page: forms, texts and figures. What computes is in worker.js.

import { filesOfDrop } from "./dropped-files.js";

const by = (id) => document.getElementById(id);
const worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
const send = (type, given = {}) => worker.postMessage({ type, ...given });

const NONE = "–";

let writing = null; // the paragraph that the text goes to
let chats = false;

const answers = {
  progress({ file, loaded, total }) {
    by("progress").value = loaded / total;
    say(`${file}: ${megabytes(loaded)} of ${megabytes(total)} MB`);
    if (loaded === total) say("Downloaded. Opening and, the first time, measuring the model…");
  },
  loaded(found) {
    ({ chats } = found);
    loading(false);
    by("work").hidden = false;
    by("prompt-label").textContent = chats ? "Your message" : "Text to translate";
    by("send").textContent = chats ? "Send" : "Translate";
    by("texts").replaceChildren();
    by("row-invariance").textContent = found.speculates
      ? `Drafting is exact here (${found.measuredOn}).`
      : "This target is not row-invariant here, so it decodes without a draft.";
    say(`Loaded in ${found.seconds.toFixed(1)} s. It is kept: the next visit needs no network.`);
    by("prompt").focus();
  },
  begun({ draft }) {
    writing = paragraph("", draft ? "answer" : "answer plain");
  },
  chunk({ draft, text, drafted, stats }) {
    writing.append(drafted ? marked(text) : text);
    by("texts").scrollTop = by("texts").scrollHeight;
    const seconds = stats.seconds - stats.firstTokenSeconds;
    const rest = stats.tokens - stats.firstTokens;
    const speed = seconds > 0 && rest > 0 ? (rest / seconds).toFixed(1) : NONE;
    const accepted = draft && stats.drafted > 0 ? `${Math.round((100 * stats.accepted) / stats.drafted)} %` : NONE;
    show(draft, stats.tokens, speed, accepted);
  },
  done({ same }) {
    answering(false);
    say(same === null ? "Done." : same ? "Done: both texts are the same." : "The two texts differ.");
  },
  failed({ name, message }) {
    loading(false);
    answering(false);
    say(name === "AbortError" ? "Stopped." : message);
  },
};

worker.onmessage = ({ data: { type, ...given } }) => answers[type](given);
worker.onerror = ({ message }) =>
  answers.failed({ message: message || "the worker could not be started; reload the page" });

by("loading").addEventListener("submit", (event) => {
  event.preventDefault();
  load(new URL(by("address").value, location.href).href);
});
by("cancel").addEventListener("click", () => send("stop"));
by("files").addEventListener("change", ({ target: { files } }) =>
  load(new Map([...files].map((file) => [file.webkitRelativePath, file]))),
);
by("asking").addEventListener("submit", (event) => {
  event.preventDefault();
  const prompt = by("prompt").value;
  paragraph(prompt, "asked");
  if (chats) by("prompt").value = "";
  answering(true);
  for (const draft of [false, true]) show(draft, NONE, NONE, NONE);
  say("Writing…");
  send("generate", { prompt, compare: by("compare").checked });
});
by("stop").addEventListener("click", () => send("stop"));
by("prompt").addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  if (!by("send").disabled) by("asking").requestSubmit();
});

document.addEventListener("dragover", (event) => {
  event.preventDefault();
  document.body.classList.add("dropping");
});
document.addEventListener("dragleave", () => document.body.classList.remove("dropping"));
document.addEventListener("drop", async (event) => {
  event.preventDefault();
  document.body.classList.remove("dropping");
  load(await filesOfDrop(event.dataTransfer));
});

function load(where) {
  void navigator.storage?.persist?.(); // else a browser may drop what it keeps when it is short of room
  by("work").hidden = true;
  loading(true);
  say("Loading…");
  send("load", { where });
}

function loading(busy) {
  by("progress").hidden = by("cancel").hidden = !busy;
  by("load").disabled = by("files").disabled = busy;
}

function answering(busy) {
  by("send").disabled = by("load").disabled = by("files").disabled = busy;
  by("stop").disabled = !busy;
  by("texts").setAttribute("aria-busy", String(busy)); // read out when it is whole
}

function say(text) {
  by("status").textContent = text;
}

// The figures of a way of decoding: tokens, tokens/s after the first call, share of accepted tokens.
function show(draft, ...figures) {
  const [, ...cells] = by(draft ? "drafted" : "plain").cells;
  cells.forEach((cell, index) => (cell.textContent = figures[index]));
}

function paragraph(text, kind) {
  const added = document.createElement("p");
  added.className = kind;
  added.textContent = text;
  by("texts").append(added);
  return added;
}

function marked(text) {
  const mark = document.createElement("mark");
  mark.textContent = text;
  return mark;
}

function megabytes(bytes) {
  return (bytes / 1e6).toFixed(0);
}

async function offerKnownPairs() {
  const response = await fetch("pairs/pairs.json").catch(() => null);
  const known = response?.ok ? await response.json() : [];
  by("known").replaceChildren(
    ...known.map((path) => Object.assign(document.createElement("option"), { value: `pairs/${path}` })),
  );
  by("address").value ||= known.length > 0 ? `pairs/${known[0]}` : "";
}

void offerKnownPairs();
void navigator.serviceWorker?.register("service-worker.js");
