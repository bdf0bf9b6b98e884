// Filters: shows the items that match every choice; a select named x hides what lacks its value in data-x.
for (const group of document.querySelectorAll(".filters")) {
  const selects = [...group.querySelectorAll("select")], search = group.querySelector("input");
  const items = [...document.querySelectorAll(group.dataset.items)];
  const apply = () => {
    for (const item of items) {
      const chosen = selects.every((select) => !select.value || item.dataset[select.name].split("|").includes(select.value));
      const words = (search?.value ?? "").toLowerCase().split(/\s+/).filter(Boolean);
      item.hidden = !chosen || !words.every((word) => (item.dataset.words ?? item.textContent.toLowerCase()).includes(word));
    }
  };
  search?.addEventListener("input", apply);
  selects.forEach((select) => select.addEventListener("change", apply));
  apply();
}
addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((part) => (part.open = true)));

// Charts: one for each metric; what is chosen in one stays chosen in the next. On failure, the picture stays.
(async () => {
  const data = document.getElementById("chart-data"), root = document.documentElement;
  if (!data) return;
  const { config, charts } = JSON.parse(data.textContent), metric = document.getElementById("metric");
  const options = { actions: false, renderer: "svg", bind: "#menus", defaultStyle: false, logLevel: 1, tooltip: { disableDefaultStyle: true } };
  metric.replaceChildren(...Object.keys(charts).map((name) => new Option(name)));
  metric.parentElement.hidden = metric.length < 2;
  let drawn, names; // of the lines that are shown
  async function draw() {
    const kept = drawn?.view.getState().signals ?? {};
    drawn?.finalize();
    document.getElementById("menus").replaceChildren();
    root.classList.add("live");
    const chart = charts[(document.getElementById("title").textContent = metric.value)];
    for (const param of chart.params) // a value that this chart has, too
      if (param.bind?.options?.includes(kept[param.name])) param.value = kept[param.name];
    const [shown, styles] = ["shown", "styles"].map((name) => chart.params.find((param) => param.name === name));
    shown.value = names ??= shown.value;
    drawn = await vegaEmbed("#live-chart", { ...chart, config }, options);
    const menus = [...document.querySelectorAll("#menus select")];
    const show = () => menus.forEach((menu) => (menu.closest(".vega-bind").hidden = menu.name === `at_${drawn.view.signal("axis")}`));
    drawn.view.addSignalListener("axis", show); // the quantity on the axis is not chosen
    show();
    document.getElementById("lines").replaceChildren(...Object.entries(styles.value).map(([name, style]) => {
      const [label, box, mark] = ["label", "input", "span"].map((tag) => document.createElement(tag));
      Object.assign(box, { type: "checkbox", name, checked: names.includes(name) });
      Object.assign(mark, { className: "mark" }).dataset.symbol = style.symbol; // no words: its color is that of the line
      mark.style.color = style.color;
      label.append(box, mark, name);
      label.dataset.line = name;
      box.addEventListener("change", () => {
        names = box.checked ? [...names, name] : names.filter((other) => other !== name);
        drawn.view.signal("shown", names).runAsync();
      });
      return label;
    }));
    const offer = () => { // lines that this panel has at this δ
      const lines = drawn.view.signal("lines")[drawn.view.signal("at_panel")]?.[drawn.view.signal("at_delta_rule")];
      for (const label of document.querySelectorAll("#lines label")) label.hidden = !!lines && !lines.includes(label.dataset.line);
    };
    for (const name of ["at_panel", "at_delta_rule"]) drawn.view.addSignalListener(name, offer);
    offer();
  }
  const draw_or_not = () => draw().catch((error) => { console.error(error); root.classList.remove("live"); });
  metric.addEventListener("change", draw_or_not);
  await draw_or_not();
})();
