// Returns what a reader sees of a page; runs in the page's frame when it has drawn.
const drawn = [...page.querySelectorAll("#live-chart svg")];
const clipped = drawn.flatMap((svg) => [...svg.querySelectorAll("text")].filter((text) => {
  const box = text.getBoundingClientRect(), whole = svg.getBoundingClientRect();
  return box.width > 0 && (box.right > whole.right || box.left < whole.left);
}).map((text) => text.textContent));
const touching = drawn.flatMap((svg) => [...svg.querySelectorAll(".role-axis-label")].flatMap((axis) => {
  const boxes = [...axis.querySelectorAll("text")]
    .filter((text) => text.textContent && text.getAttribute("opacity") !== "0")
    .map((text) => [text.getBoundingClientRect(), text.textContent]);
  return boxes.filter(([box, name]) => boxes.some(([other, word]) => word !== name
    && box.left < other.right + 2 && other.left < box.right + 2
    && box.top < other.bottom && other.top < box.bottom))
    .map(([, name]) => name);
}));
return {
  scroll: page.documentElement.scrollWidth, width: view.innerWidth, clipped,
  background: view.getComputedStyle(page.body).backgroundColor,
  ink: view.getComputedStyle(page.body).color,
  chart: view.getComputedStyle(page.querySelector("#live-chart") ?? page.body).filter,
  touching, small: [...page.querySelectorAll("img.drawn")].filter((img) => img.offsetParent
    && img.width < 0.79 * img.naturalWidth).map((img) => img.alt),
  hidden: [...page.querySelectorAll("td")].filter((cell) => /\d to [−\d]|\[[−\d]/.test(cell.textContent)
    && cell.getBoundingClientRect().right > view.innerWidth && cell.closest("table.stacked"))
    .map((cell) => cell.textContent),
  menus: [...page.querySelectorAll("select")].map((menu) => menu.getBoundingClientRect().right)
    .filter((right) => right > view.innerWidth),
};
