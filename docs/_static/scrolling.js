// What is wider than its place scrolls sideways by itself: it gets a name, and a key can reach it.
// The style sheet shows a hint above what has the class `scrolls`; a narrow first column stays.
const boxes = document.querySelectorAll(
  ".table-wrapper, .signals, .math-wrapper, .highlight pre, p:has(> img[src$='.svg'])",
);
const heading = (box) => {
  const found = [...document.querySelectorAll("article h1, article h2, article h3, article h4")];
  const before = found.filter(
    (one) => one.compareDocumentPosition(box) & Node.DOCUMENT_POSITION_FOLLOWING,
  );
  return before.length ? before.at(-1).firstChild.textContent.trim() : document.title;
};
const kind = (box) => (box.matches("pre") ? "code" : box.querySelector("table") ? "table" : "figure");
const mark = (box) => {
  const wide = box.scrollWidth > box.clientWidth + 1;
  box.classList.toggle("scrolls", wide);
  const first = box.querySelector("tbody > tr > :first-child");
  const narrow = first && first.offsetWidth < 0.45 * box.clientWidth;
  box.classList.toggle("pinned", Boolean(wide && narrow));
  if (!wide || box.hasAttribute("tabindex")) return;
  box.tabIndex = 0;
  box.setAttribute("role", "region");
  box.setAttribute("aria-label", `${heading(box)}: ${kind(box)}, scrolls sideways`);
};
// The numbers of a table with many columns are small and stay in one line.
for (const box of document.querySelectorAll(".table-wrapper")) {
  const cells = [...box.querySelectorAll("td:not(:first-child)")];
  const short = cells.every((cell) => cell.textContent.length <= 24);
  box.classList.toggle("numbers", short && box.querySelector("tr > :nth-child(8)") !== null);
}
const watch = new ResizeObserver((entries) => entries.forEach(({ target }) => mark(target)));
boxes.forEach((box) => watch.observe(box));
