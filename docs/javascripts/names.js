// Names for parts of the theme that have none, for screen readers.

function nameParts() {
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
  document.querySelectorAll(".md-code__nav").forEach((part, index) => {
    if (!part.hasAttribute("aria-label")) part.setAttribute("aria-label", `Code ${index + 1}`);
  });
}

nameParts();
// The theme adds them when they come into view.
new MutationObserver(nameParts).observe(document.body, { childList: true, subtree: true });
