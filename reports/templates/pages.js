// Search: shows the items that have every word.
for (const group of document.querySelectorAll(".filters")) {
  const search = group.querySelector("input"), items = [...document.querySelectorAll(group.dataset.items)];
  search.addEventListener("input", () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const part of document.querySelectorAll("details")) part.open ||= items.some((item) => part.contains(item));
    for (const item of items) item.hidden = !words.every((word) => (item.dataset.words ?? item.textContent.toLowerCase()).includes(word));
  });
}
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((part) => (part.open = true)));

// The address keeps what is chosen: the view, the measure, menus, and the line in color.
const state = new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : "");
function keep(name, value) {
  state.set(name, value);
  history.replaceState(null, "", `#${state}`);
}

// Views of a page become tabs; without a script they follow each other.
const views = [...document.querySelectorAll(".view")];
if (views.length > 1) {
  const tabs = views.map((view, place) => {
    const tab = document.createElement("button");
    Object.assign(tab, { type: "button", role: "tab", id: `tab-${place}`, textContent: view.dataset.name });
    tab.setAttribute("aria-controls", (view.id = `view-${place}`));
    view.setAttribute("role", "tabpanel");
    view.setAttribute("aria-labelledby", tab.id);
    tab.addEventListener("click", () => keep("view", show(place)));
    return tab;
  });
  function show(at) {
    tabs.forEach((tab, place) => {
      tab.setAttribute("aria-selected", place === at);
      tab.tabIndex = place === at ? 0 : -1;
      views[place].classList.toggle("away", place !== at);
    });
    dispatchEvent(new Event("resize")); // a chart that was out of sight has a width now
    return views[at].dataset.name;
  }
  const list = document.createElement("div");
  Object.assign(list, { className: "tabs", role: "tablist", ariaLabel: "Views" });
  list.append(...tabs);
  list.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key], at = tabs.indexOf(document.activeElement);
    if (step && at >= 0) tabs[(at + step + tabs.length) % tabs.length].focus();
  });
  views[0].before(list);
  document.documentElement.classList.add("tabbed");
  show(Math.max(0, views.findIndex((view) => view.dataset.name === state.get("view"))));
}
document.getElementById("share")?.addEventListener("click", async (event) => {
  await navigator.clipboard.writeText(location.href).catch(() => prompt("Copy the address", location.href));
  event.target.textContent = "Copied";
});

// Charts: one for each metric. Names stand at the ends of lines; a click on one puts it in color. On failure, the picture stays.
(async () => {
  const data = document.getElementById("chart-data"), root = document.documentElement;
  if (!data) return;
  const { config, charts } = JSON.parse(data.textContent), metric = document.getElementById("metric");
  const options = { actions: false, renderer: "svg", bind: "#menus", defaultStyle: false, logLevel: 1, tooltip: { disableDefaultStyle: true } };
  metric.replaceChildren(...Object.keys(charts).map((name) => new Option(name)));
  if (state.get("measure") in charts) metric.value = state.get("measure");
  metric.parentElement.hidden = metric.length < 2;
  const labels = document.getElementById("labels"), title = document.getElementById("title");
  const short = (value) => value.toPrecision(3).replace(/\.?0+$/, "");
  let drawn, at = null; // the place of the pointer
  const items = (name) => [...document.querySelectorAll(`#live-chart .${name}_marks path`)].map((path) => [path.__data__.datum, path]);
  function name_lines() {
    const { styles, focus, axis, home } = drawn.view.getState({ signals: (name) => ["styles", "focus", "axis", "home"].includes(name), data: () => false }).signals;
    const top = labels.getBoundingClientRect().top, rows = items("all").map(([row]) => row), places = rows.map((row) => row.x);
    const here = at ?? (places.includes(home[axis]) ? home[axis] : Math.max(...places)); // the pointer's place, or the headline's
    const there = new Map(rows.filter((row) => row.x === here).map((row) => [row.line, row]));
    const ends = items("ends").map(([row, path]) => ({ row, y: path.getBoundingClientRect().top - top, line: row.line })).sort((a, b) => a.y - b.y);
    const symbol = { n: home.symbol, epsilon: "ε", steps: "T" }[axis] ?? axis;
    title.textContent = `${metric.length < 2 ? `${metric.value}; ` : ""}at ${symbol} = ${here.toLocaleString("en")}`;
    labels.replaceChildren(...ends.map(({ row, line }) => {
      const [name, words, value] = ["button", "i", "span"].map((tag) => document.createElement(tag)), shown = there.get(line);
      words.textContent = line.replace(/, tight$/, "").replace(/, paper's$/, " (paper’s noise)");
      Object.assign(name, { type: "button", title: line, disabled: row.role === "zero" || !!row.of || !row.role || row.role === "nonprivate" });
      value.textContent = shown ? short(shown.mean) : "";
      name.style.borderColor = line === focus ? styles[line].color : styles[line].own ? "currentColor" : "transparent";
      name.setAttribute("aria-pressed", line === focus);
      name.append(words, " ", value);
      name.addEventListener("click", () => drawn.view.signal("focus", line).runAsync().then(() => { name_lines(); keep("line", line); [...labels.children].find((each) => each.ariaPressed === "true")?.focus(); }));
      return name;
    }));
    const names = [...labels.children], heights = names.map((name) => name.offsetHeight + 1); // long names have two lines
    let edge = 0;
    ends.forEach((end, place) => (edge = (end.y = Math.max(end.y, edge)) + heights[place]));
    labels.parentElement.style.minHeight = `${heights.reduce((sum, height) => sum + height, 0)}px`;
    edge = labels.clientHeight;
    for (let place = names.length - 1; place >= 0; place--) names[place].style.top = `${(edge = Math.min(ends[place].y, edge - heights[place]))}px`;
  }
  async function draw() {
    const kept = drawn?.view.getState().signals ?? {};
    drawn?.finalize();
    document.getElementById("menus").replaceChildren();
    root.classList.add("live");
    const chart = structuredClone(charts[metric.value]), [focus, styles] = ["focus", "styles"].map((name) => chart.params.find((param) => param.name === name));
    for (const param of chart.params) { // a value that this chart has, too
      const wanted = kept[param.name] ?? state.get(param.name);
      const options = param.bind?.options ?? (param.bind?.input === "checkbox" ? [false, true] : []);
      const found = options.find((option) => String(option) === String(wanted));
      if (found !== undefined) param.value = found;
    }
    for (const line of [kept.focus, state.get("line")]) if (line in styles.value) { focus.value = line; break; }
    if (!(focus.value in styles.value)) focus.value = Object.keys(styles.value)[0];
    drawn = await vegaEmbed("#live-chart", { ...chart, config }, options);
    const menus = [...document.querySelectorAll("#menus select, #menus input")];
    const show = () => menus.forEach((menu) => (menu.closest(".vega-bind").hidden = menu.name === `at_${drawn.view.signal("axis")}`));
    drawn.view.addSignalListener("axis", show); // the quantity on the axis is not chosen
    for (const menu of menus) drawn.view.addSignalListener(menu.name, (name, value) => { keep(name, value); drawn.view.runAfter(() => setTimeout(name_lines)); });
    drawn.view.addSignalListener("hover", (name, value) => { at = value?.x?.[0] ?? null; name_lines(); });
    drawn.view.addResizeListener(() => setTimeout(name_lines));
    show();
    name_lines();
  }
  const draw_or_not = () => draw().catch((error) => { console.error(error); root.classList.remove("live"); });
  metric.addEventListener("change", () => { keep("measure", metric.value); draw_or_not(); });
  addEventListener("resize", () => drawn && setTimeout(name_lines, 100));
  await draw_or_not();
})();
