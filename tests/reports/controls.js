// Draws each metric; chooses values of each visible menu and goes back, with each quantity on the axis;
// `same` are menus that change nothing.
const shown = () => [...page.querySelectorAll("#live-chart svg path, #live-chart svg text")]
  .map((mark) => mark.getAttribute("transform") + mark.getAttribute("d") + mark.textContent).join();
const menus = () => [...page.querySelectorAll("#menus select")];
async function choose(menu, index) {
  menu.selectedIndex = index;
  for (const kind of ["input", "change"]) menu.dispatchEvent(new view.Event(kind, { bubbles: true }));
  await pause(150);
}
async function changes(menu) {
  const before = shown(), first = menu.selectedIndex;
  let found = false;
  for (let index = 0; index < menu.options.length && !found; index++) {
    await choose(menu, index);
    found = shown() !== before;
  }
  await choose(menu, first);
  return found;
}
const same = [], metric = page.getElementById("metric"), drawn = [];
for (let index = 0; index < (metric ? metric.options.length : 0); index++) {
  await choose(metric, index);
  drawn.push(shown());
}
if (metric) await choose(metric, 0);
const axis = menus().find((menu) => menu.name === "axis");
for (let index = 0; index < (axis ? axis.options.length : 1); index++) {
  if (axis) await choose(axis, index);
  for (const menu of menus())
    if (menu.offsetParent && !(await changes(menu))) same.push(menu.labels[0].textContent);
}
return { same, requests: view.performance.getEntriesByType("resource").map((entry) => entry.name)
    .filter((name) => !name.startsWith("file:"))
    , metrics: [drawn.length, new Set(drawn).size, drawn.filter(Boolean).length],
  scroll: page.documentElement.scrollWidth, width: view.innerWidth };
