// Keeps the page itself, so that it opens without a network. Models are kept by edgespec.

// build.mjs fills them in.
declare const FILES: readonly string[];
declare const VERSION: string;

const scope = self as unknown as ServiceWorkerGlobalScope;
const CACHE = `edgespec-page-${VERSION}`;
/** What is offered may change while the page does not. */
const FRESH = /\/(pairs|edgespec)\.json$/;
const OFFERED = "pairs/pairs.json";

scope.addEventListener("install", (event) => {
  event.waitUntil(keepPage());
  void scope.skipWaiting();
});

scope.addEventListener("activate", (event) => event.waitUntil(replaceOlder()));

scope.addEventListener("fetch", (event) => {
  const { request } = event;
  if (request.method !== "GET") return;
  event.respondWith(FRESH.test(new URL(request.url).pathname) ? fetchedOrKept(request) : keptOrFetched(request));
});

async function keepPage(): Promise<void> {
  const cache = await caches.open(CACHE);
  await cache.addAll(FILES);
  await cache.add(OFFERED).catch(() => undefined); // a page may offer nothing
}

async function replaceOlder(): Promise<void> {
  const names = await caches.keys();
  const older = names.filter((name) => name.startsWith("edgespec-page-") && name !== CACHE);
  await Promise.all(older.map((name) => caches.delete(name)));
  await scope.clients.claim();
}

async function keptOrFetched(request: Request): Promise<Response> {
  const kept = await (await caches.open(CACHE)).match(request, { ignoreSearch: request.mode === "navigate" });
  return kept ?? fetch(request);
}

async function fetchedOrKept(request: Request): Promise<Response> {
  const cache = await caches.open(CACHE);
  try {
    const response = await fetch(request);
    if (response.ok) await cache.put(request, response.clone());
    return response;
  } catch (error) {
    const kept = await cache.match(request);
    if (kept === undefined) throw error;
    return kept;
  }
}
