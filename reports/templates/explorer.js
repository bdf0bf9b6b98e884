// The chart and the table that follow the controls. Data and specifications come from reports/charts/explorer.py.
(async () => {
const source = document.getElementById("explorer-data");
const library = document.getElementById("vega-library");
if (!source || !library || !window.DecompressionStream) return;
function unpacked(element) {
  const packed = Uint8Array.from(atob(element.textContent), (char) => char.charCodeAt(0));
  return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}
const data = JSON.parse(await unpacked(source));
const $ = (id) => document.getElementById(id);
const SIZES = ["n", "d", "s", "steps"];
const number = (value) => (value === "inf" ? Infinity : value);
const rows = data.cells.mean.map((_, i) => {
  const row = {};
  for (const [key, values] of Object.entries(data.cells)) row[key] = number(values[i]);
  for (const key of ["metric", "panel", "delta_rule", "message", "status"]) row[key] = data.names[key][row[key]];
  row.look = data.series[row.series];
  row.private = row.look.role === "private" || row.look.role === "unprotected";
  return row;
});
const distinct = (list, key) => [...new Set(list.map((row) => row[key]))].filter((value) => value !== null && value !== "");
const ascending = (values) => values.sort((a, b) => a - b);
const CHOSEN = { lines: "", sort: "", down: "" };
const state = { ...data.start, ...CHOSEN };
let view = null, shownScale = "", shown = null, first = null;

// Numbers as reports/writing.py writes them.
const minus = (text) => text.replaceAll("-", "−");
function scientific(value, digits = 1) {
  const [mantissa, power] = value.toExponential(digits).split("e");
  const raised = [...String(Number(power))].map((c) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[c] ?? "⁻").join(""), factor = String(Number(mantissa));
  return factor === "1" ? `10${raised}` : minus(`${factor} × 10${raised}`);
}
function significant(value, digits) {
  const rounded = Number(value.toPrecision(digits)), decimals = Math.max(0, digits - 1 - Math.floor(Math.log10(Math.abs(rounded))));
  return minus(rounded.toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals }));
}
function num(value) {
  if (value === null || Number.isNaN(value)) return "none";
  if (!Number.isFinite(value)) return value > 0 ? "∞" : "−∞";
  if (value === 0) return "0";
  const size = Math.abs(value);
  return size < 1e-4 || size >= 1e6 ? scientific(value) : significant(value, size >= 0.0995 ? 3 : 2);
}
function short(value) {
  if (!Number.isFinite(value) || value === 0 || Math.abs(value) < 1e-4) return num(value);
  const text = significant(value, 2);
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}
function setting(value) {
  if (Number.isInteger(value) && Math.abs(value) < 1e9) return minus(value.toLocaleString("en"));
  const size = Math.abs(value);
  if (size >= 1e-4 && size < 1e6) return minus(Number(value.toPrecision(6)).toLocaleString("en", { maximumFractionDigits: 10 }));
  const [mantissa, power] = value.toExponential(5).split("e");
  return minus(`${Number(mantissa)}e${power[0]}${power.slice(1).padStart(2, "0")}`);
}
function errorBar(se, mean) {
  if (Math.abs(mean) >= 1e6) return num(se);
  const decimals = Math.abs(mean) >= 1e-4 ? (num(mean).split(".")[1] ?? "").length : 0;
  if (Number(se.toFixed(decimals)) > 0) return se.toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals });
  return se < 1e-4 ? scientific(se, 0) : significant(se, 1);
}
const repetitions = (count) => `${setting(count)} repetition${count === 1 ? "" : "s"}`;
const span = (values) => {
  const finite = values.filter(Number.isFinite);
  if (!finite.length) return "";
  const [low, high] = [num(Math.min(...finite)), num(Math.max(...finite))];
  return low === high ? low : `${low}–${high}`;
};

// What is chosen: each quantity keeps its value where the ones before it allow that, else takes the nearest.
function nearest(values, wanted) {
  if (values.includes(wanted)) return wanted;
  if (typeof values[0] !== "number" || !(wanted > 0)) return values[0];
  return values.reduce((a, b) => (Math.abs(Math.log(b / wanted)) < Math.abs(Math.log(a / wanted)) ? b : a));
}
function choose() {
  const axes = Object.keys(data.axes);
  if (!axes.includes(state.axis)) state.axis = axes[0];
  if (!data.metrics[state.metric]) state.metric = data.start.metric;
  let left = rows.filter((row) => row.metric === state.metric);
  const offered = {};
  for (const key of ["panel", "epsilon", "delta_rule", ...SIZES]) {
    if (key === state.axis || (SIZES.includes(key) && !axes.includes(key))) continue;
    const values = distinct(left.filter((row) => row.private), key);
    if (typeof values[0] === "number") ascending(values);
    offered[key] = values;
    if (!values.length) continue;
    state[key] = nearest(values, state[key] ?? data.start[key]);
    left = left.filter((row) => row[key] === state[key] || row[key] === null || row[key] === "");
  }
  const noises = new Set(left.filter((row) => row.private).map((row) => row.look.calibration));
  offered.calibration = noises.size > 1 ? ["", ...noises] : [];
  if (noises.size > 1 && state.calibration) left = left.filter((row) => !row.private || row.look.calibration === state.calibration);
  return { offered, left };
}

// The lines of a choice. What does not depend on the axis is a flat line.
function lines(left) {
  const xs = ascending(distinct(left, state.axis)), found = new Map();
  for (const row of left) {
    const own = row[state.axis] === null ? xs : [row[state.axis]];
    for (const x of own) {
      if (!found.has(row.series)) found.set(row.series, new Map());
      found.get(row.series).set(x, row);
    }
  }
  const all = [...found].sort((a, b) => a[0] - b[0]).map(([index, points]) => {
    const list = [...points].sort((a, b) => a[0] - b[0]).map(([x, row]) => ({ x, row, y: row.n_ok > 0 && Number.isFinite(row.mean) ? row.mean : null }));
    return { index, look: data.series[index], points: list };
  });
  return { xs, all };
}
function limits(all, guides, log) {
  const of = (test) => all.filter((line) => test(line.look.role)).flatMap((line) => line.points.map((p) => p.y)).filter((y) => y !== null && (!log || y > 0));
  const own = of((role) => role === "private"), others = of((role) => role !== "private"), zero = of((role) => role === "zero");
  const every = [...own, ...others];
  if (!every.length) return [0.1, 1];
  if (!log) {
    const values = [...every, ...guides.flatMap((guide) => guide.points.map((p) => p[1]))];
    const [low, high] = [Math.min(...values), Math.max(...values)], room = 0.04 * (high - low || 1);
    return [low - room, high + room];
  }
  const inside = own.length ? own : others, floor = Math.min(...inside) / 25;
  const low = Math.max(Math.min(...every), floor);
  let high = Math.max(...every);
  if (zero.length) high = Math.min(high, 12 * Math.max(...zero));
  return [low / 1.25, Math.max(high, Math.min(...inside) * 1.5, ...others) * 1.25];
}
function spread(wanted, height, below) {
  const order = wanted.map((_, i) => i).sort((a, b) => wanted[a] - wanted[b]);
  const step = Math.min(height, below / Math.max(1, wanted.length)), places = [];
  let last = -step;
  for (const i of order) last = places[i] = Math.max(wanted[i], last + step, 0);
  let ceiling = below;
  for (const i of [...order].reverse()) {
    places[i] = Math.min(places[i], ceiling);
    ceiling = places[i] - step;
  }
  return places;
}
function tip(line, point) {
  const row = point.row, facts = [[line.look.name, line.look.noise]];
  facts.push([data.axes[state.axis], setting(point.x)]);
  facts.push(["mean ± standard error", row.se > 0 ? `${num(row.mean)} ± ${errorBar(row.se, row.mean)}` : num(row.mean)]);
  facts.push(["10 % to 90 %", `${num(row.q10)} to ${num(row.q90)}`], ["repetitions", setting(row.n_ok) + (row.n_failed ? `, ${row.n_failed} failed` : "")]);
  facts.push(["n", setting(row.n)]);
  if (row.private) facts.push(["certified ε", num(row.certified)], ["audited ε", row.audited === null ? "not audited" : `≥ ${num(row.audited)}`]);
  if (row.message) facts.push(["note", row.message]);
  return facts;
}

// The lines of the chart: those that were chosen, else those that the setting begins with.
const GUIDES = -1;
function drawnLines(all) {
  if (state.lines) return new Set(state.lines.split(".").map(Number));
  const first = ofSetting().lines;
  const there = all.filter((line) => first.includes(line.index));
  return new Set((there.length > 1 ? there : all.slice(0, 5)).map((line) => line.index));
}

async function draw() {
  const { offered, left } = choose();
  const { xs, all } = lines(left), scale = data.metrics[state.metric].scale, log = scale === "log";
  const drawn = drawnLines(all);
  const visible = all.filter((line) => drawn.has(line.index));
  const own = state.metric === data.start.metric && state.axis === data.start.axis;
  const known = !own ? [] : data.guides.filter((guide) =>
    (!guide.panel || guide.panel === state.panel || guide.panel === `${state.panel}:${state.n}`)
    && (!guide.epsilon || guide.epsilon === state.epsilon) && (!guide.delta_rule || guide.delta_rule === state.delta_rule));
  const guides = drawn.has(GUIDES) ? known : [];
  let [low, high] = limits(visible, guides, log);
  const range = [Math.min(...xs) / 1.06, Math.max(...xs) * 1.06];
  if (xs.length === 1) range.splice(0, 2, xs[0] / 2, xs[0] * 2);
  const box = $("live-chart"), wide = box.clientWidth >= 640;
  const names = [...visible.map((line) => line.look.brief), ...guides.map((guide) => guide.label)];
  const room = wide ? Math.min(300, 7 * Math.max(8, ...names.map((name) => name.length)) + 30) : 12;
  const width = Math.max(180, box.clientWidth - room - 52), height = wide ? 430 : 330 + 17 * names.length;
  if (!wide) { // the names of lines stand above them
    const taller = height / 330;
    high = log ? low * (high / low) ** taller : low + (high - low) * taller;
  }
  const px = (x) => (width * Math.log(x / range[0])) / Math.log(range[1] / range[0]);
  const share = (y) => (log ? Math.log(Math.max(y, 1e-300) / low) / Math.log(high / low) : (y - low) / (high - low));
  const py = (y) => height * (1 - Math.min(Math.max(share(y), 0), 1));
  const sets = { points: [], guides: [], leaders: [], labels: [], edges: [], failed: [], flagged: [] }, wanted = [];
  for (const line of visible) {
    const { c, fill, dash, shape, ink, brief, role } = line.look, answered = line.points.filter((p) => p.y !== null);
    const flat = role === "zero" && answered.length ? xs.map((x) => ({ ...answered[answered.length - 1], x })) : answered;
    for (const point of flat) {
      const banded = point.row.n_ok > 1 && role !== "zero" && point.row.q10 !== null;
      const drawn = { x: point.x, y: log ? Math.max(point.y, low / 10) : point.y, key: line.index, c, fill, dash, shape: point.y < low || point.y > high ? "" : shape, tip: tip(line, point) };
      if (banded) Object.assign(drawn, { lo: log ? Math.max(point.row.q10, low / 10) : point.row.q10, hi: point.row.q90 });
      sets.points.push(drawn);
      const edge = { x: point.x, c, text: num(point.y) };
      if (shape && point.y < low) sets.edges.push({ ...edge, y: low, shape: "triangle-down", align: px(point.x) > width / 2 ? "right" : "left" });
      if (shape && point.y > high) sets.edges.push({ ...edge, y: high, shape: "triangle-up", align: "center" });
    }
    for (const point of line.points) {
      if (point.y === null || point.row.n_failed) sets.failed.push({ x: point.x, y: point.y === null ? high : Math.min(point.y, high), c, tip: tip(line, point) });
    }
    if (flat.length) wanted.push({ text: brief, line: line.index, c: ink, x: flat[flat.length - 1].x, y: flat[flat.length - 1].y });
  }
  guides.forEach((guide, key) => {
    const inside = guide.points.filter(([x, y]) => y >= low && y <= high && x >= range[0] && x <= range[1]);
    for (const [x, y] of guide.points) if (x >= range[0] && x <= range[1]) sets.guides.push({ x, y, key, dash: guide.dash });
    if (inside.length) wanted.push({ text: guide.label, c: "var(--muted)", x: inside[inside.length - 1][0], y: inside[inside.length - 1][1] });
  });
  const weak = state.axis === "n" ? xs.filter((x) => left.some((row) => row.private && row.n === x && row.delta * row.n >= 1)) : [];
  if (weak.length) sets.flagged.push({ x: weak[0] / 1.05, x2: weak[weak.length - 1] * 1.05 });
  if (wide) {
    const places = spread(wanted.map((label) => py(label.y)), 15, height + 8);
    wanted.forEach((label, key) => {
      sets.labels.push({ px: width + 16, py: places[key], text: label.text, line: label.line, c: label.c });
      [[px(label.x) + 4, py(label.y)], [width + 2, py(label.y)], [width + 14, places[key]]].forEach(([x, y], i) =>
        sets.leaders.push({ px: x, py: y, key, i, c: label.c }));
    });
  } else wanted.forEach((label, key) => {
    const mark = label.line === undefined ? "—" : data.series[label.line].symbol;
    const most = Math.floor(box.clientWidth / 7); // letters; the list of lines has the whole name
    const text = label.text.length > most ? `${label.text.slice(0, most - 1)}…` : label.text;
    sets.labels.push({ px: 6, py: 9 + 17 * key, text: `${mark} ${text}`, line: label.line, c: label.c });
  });
  const ticks = [];
  for (const x of [...xs].reverse()) if (!ticks.length || px(ticks[0]) - px(x) > 10 + 3.8 * (setting(x) + setting(ticks[0])).length) ticks.unshift(x);
  if (shownScale !== scale) {
    shownScale = scale;
    if (view) view.finalize();
    const options = { mode: "vega", actions: false, renderer: "svg", hover: true, tooltip: point, defaultStyle: false, logLevel: 1 };
    view = (await vegaEmbed(box, data.specs[scale], options)).view;
    view.addEventListener("click", (event, item) => $("lines").querySelector(`[data-line="${item?.datum?.line}"]`)?.click());
  }
  view.signal("x_low", range[0]).signal("x_high", range[1]).signal("y_low", low).signal("y_high", high).signal("x_ticks", ticks);
  view.width(width).height(height);
  for (const [name, values] of Object.entries(sets)) view.data(name, values);
  view.run();
  const about = data.metrics[state.metric];
  const warning = data.stand_in.includes(state.panel) ? "STAND-IN DATA, not the real data set: " : "";
  $("y-title").classList.toggle("warn", Boolean(warning));
  $("y-title").textContent = warning + about.label + (about.direction ? ` (${about.direction})` : "");
  $("x-title").textContent = data.axes[state.axis] + (weak.length ? `; amber: δ·${data.words.rows} ≥ 1, a weak guarantee` : "");
  box.setAttribute("aria-label", `${about.label} against ${data.axes[state.axis]}; the table below has the same numbers`);
  shown = { xs, visible: all, left };
  controls(offered);
  legend(all, drawn, known);
  table();
  figureCommand(visible);
  remember();
}
function point(handler, event, item) {
  const box = $("tip"), facts = item && item.datum && item.datum.tip;
  box.hidden = !facts;
  if (!facts) return;
  box.replaceChildren(...facts.map(([name, value], i) => {
    const line = document.createElement("div");
    line.append(element(i ? "span" : "b", name), ` ${value}`);
    return line;
  }));
  const frame = $("explorer").getBoundingClientRect();
  box.style.left = `${Math.max(0, Math.min(event.clientX - frame.left + 14, frame.width - box.offsetWidth - 4))}px`;
  box.style.top = `${event.clientY - frame.top + 14}px`;
}
function element(tag, text, attributes = {}) {
  const made = document.createElement(tag);
  made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

const TITLES = { metric: "What is measured", panel: "", epsilon: "ε", delta_rule: "δ", calibration: "Noise", axis: "On the axis" };
const NOISE = { "": "all", tight: "tight: the least that proves ε", paper: "as printed in the paper" };
function caption(key, value) {
  if (key === "metric") return data.metrics[value].label;
  if (key === "axis") return data.axes[value];
  if (key === "delta_rule") return data.rules[value];
  if (key === "calibration") return NOISE[value];
  return typeof value === "number" ? setting(value) : value;
}
function controls(offered) {
  const wanted = { metric: Object.keys(data.metrics), ...offered, axis: Object.keys(data.axes) };
  for (const key of Object.keys(wanted)) {
    let label = $(`control-${key}`)?.parentElement;
    if (!label) {
      const title = key === "panel" ? data.words.panel[0].toUpperCase() + data.words.panel.slice(1) : TITLES[key] ?? data.axes[key] ?? key;
      label = element("label", title, { for: `control-${key}` });
      label.append(element("select", "", { id: `control-${key}` }));
      label.lastChild.addEventListener("change", (event) => {
        const values = event.target.values;
        state[key] = values[event.target.selectedIndex];
        draw();
      });
      $("controls").append(label);
    }
    const select = label.lastChild, values = wanted[key];
    label.hidden = values.length < 2;
    select.values = values;
    select.replaceChildren(...values.map((value) => new Option(caption(key, value), value, false, value === state[key])));
  }
  for (const label of $("controls").children) if (!(label.lastChild.id.slice(8) in wanted)) label.hidden = true;
}
function legend(all, drawn, guides) {
  const focused = document.activeElement?.dataset?.line, open = $("lines").querySelector("details")?.open ?? false;
  const choice = (index, mark, text) => {
    const label = element("label", ""), box = element("input", "", { type: "checkbox", "data-line": index });
    box.checked = drawn.has(index);
    box.addEventListener("change", () => {
      if (box.checked) drawn.add(index); else drawn.delete(index);
      state.lines = [...drawn].sort((a, b) => a - b).join(".");
      draw();
    });
    label.append(box, mark, ` ${text}`);
    return label;
  };
  const lines = all.map((line) => {
    const mark = element("span", line.look.symbol, { "aria-hidden": "true" });
    mark.style.color = line.look.c;
    return [drawn.has(line.index), choice(line.index, mark, line.look.brief)];
  });
  if (guides.length) lines.push([drawn.has(GUIDES), choice(GUIDES, "—", `theory and limits: ${guides.map((guide) => guide.label).join("; ")}`)]);
  const rest = lines.filter(([shown]) => !shown).map(([, label]) => label), more = element("details", "");
  more.open = open;
  more.append(element("summary", `${rest.length} more line${rest.length === 1 ? "" : "s"}`), ...rest);
  $("lines").replaceChildren(element("legend", "Lines"), ...lines.filter(([shown]) => shown).map(([, label]) => label), ...(rest.length ? [more] : []));
  if (focused) $("lines").querySelector(`[data-line="${focused}"]`)?.focus();
}

// The table: a row per line, a column per place on the axis; its rules are those of reports/words/tables.py.
const at = (line, x) => line.points.find((point) => point.x === x);
const below = (point, value) => point.y + 2 * se(point) < value;
const se = (point) => (Number.isFinite(point.row.se) ? point.row.se : 0);
function ofSetting() {
  return data.settings[[state.panel, state.epsilon, state.delta_rule].join("|")] ?? data.settings[""];
}
// The marks of a column's private answers: the best one and those within two standard errors of it, if they
// are clearly better than zero, among those of the strongest promise; and those that are worse than zero.
function marksAt(x, lines) {
  const zeros = lines.filter((line) => line.look.role === "zero").flatMap((line) => line.points.filter((point) => point.y !== null));
  const far = (point) => Math.abs(Math.log(point.x / x));
  const zero = zeros.length ? zeros.reduce((a, b) => (far(b) < far(a) ? b : a)).y : Infinity;
  const ranked = lines.filter((line) => line.look.role === "private" && line.look.promise === ofSetting().promise)
    .map((line) => at(line, x)).filter((point) => point && point.y !== null);
  const best = ranked.length ? ranked.reduce((a, b) => (b.y < a.y ? b : a)) : null;
  return (line, point) => {
    const tied = ranked.includes(point) && point.y - best.y <= 2 * Math.hypot(se(point), se(best));
    if (tied && below(point, zero)) return "best";
    return point.row.private && point.y > zero ? "worse" : "plain";
  };
}
function remarks(line) {
  if (line.look.role === "unprotected") return ["unprotected"];
  if (line.look.role !== "private") return [];
  const proved = line.points.map((point) => point.row).filter((row) => Number.isFinite(row.certified));
  const found = data.unprotected_panels.includes(state.panel) ? ["prepared"] : [], limits = data.noise_limits;
  if (proved.some((row) => row.certified > row.epsilon * limits["too small"])) found.push("too small");
  if (proved.length && proved.every((row) => row.certified < row.epsilon * limits["too large"])) found.push("too large");
  return found;
}
function table() {
  const { xs, visible } = shown, lower = data.metrics[state.metric].direction.startsWith("lower");
  const marks = xs.map((x) => (lower ? marksAt(x, visible) : () => "plain")), notes = new Map();
  const letter = (text) => {
    if (!notes.has(text)) notes.set(text, String.fromCharCode(97 + Math.min(notes.size, 25)));
    return notes.get(text);
  };
  const audited = visible.some((line) => line.points.some((p) => Number.isFinite(p.row.audited)));
  const heads = ["Estimator", ...xs.map(setting), "certified ε", ...(audited ? ["audited ε ≥"] : [])], last = audited ? 2 : 1;
  const made = element("table", "", { class: "errors" }), head = made.createTHead(), over = head.insertRow();
  made.createCaption().textContent = `Mean errors by estimator and ${data.axes[state.axis]}`;
  over.className = "over";
  over.append(element("th", ""), element("th", data.axes[state.axis], { colspan: xs.length }), element("th", "", { colspan: last }));
  const titles = head.insertRow();
  heads.forEach((title, column) => {
    const cell = element("th", "", { scope: "col" }), button = element("button", title, { type: "button" });
    if (String(column) === state.sort) cell.setAttribute("aria-sort", state.down ? "descending" : "ascending");
    button.addEventListener("click", () => {
      state.down = String(column) === state.sort && !state.down ? "1" : "";
      state.sort = String(column);
      draw().then(() => $("view-table").querySelectorAll("th button")[column].focus());
    });
    cell.append(button);
    titles.append(cell);
  });
  const exposed = xs.map((x) => Math.max(...visible.map((line) => at(line, x)?.row).map((row) => (Number.isFinite(row?.delta) ? row.delta * row.n : -1))));
  if (exposed.some((product) => product >= 0)) {
    const row = head.insertRow();
    row.className = "dn";
    row.append(element("th", `δ·${data.words.rows}`, { scope: "row" }));
    for (const product of exposed) row.append(element("td", product < 0 ? "" : short(product), product >= 1 ? { class: "flagged" } : {}));
    row.append(element("td", "", { colspan: last }));
  }
  const written = visible.map((line) => tableRow(line, xs, marks, letter, audited)), order = written.map((_, i) => i);
  if (state.sort !== "") {
    const column = Number(state.sort), key = column === xs.length + 1 ? "certified" : "audited";
    const value = (line) => (column === 0 ? line.look.name : column <= xs.length ? at(line, xs[column - 1])?.y ?? Infinity
      : Math.max(-1, ...line.points.map((p) => p.row[key]).filter(Number.isFinite)));
    const compare = (a, b) => (typeof a === "number" ? a - b || 0 : a.localeCompare(b));
    order.sort((a, b) => (state.down ? -1 : 1) * compare(value(visible[a]), value(visible[b])));
  } else visible.forEach((line, i) => {
    if (i && line.look.role !== "private" && visible[i - 1].look.role === "private") written[i].className = "apart";
  });
  made.createTBody().append(...order.map((i) => written[i]));
  const key = element("dl", "", { class: "key notes" });
  for (const [text, mark] of notes) key.append(element("dt", mark), element("dd", text));
  $("view-table").replaceChildren(made, ...(notes.size ? [key] : []));
  const chosen = ["panel", "epsilon", "delta_rule", ...SIZES].filter((key) => key !== state.axis && !$(`control-${key}`)?.parentElement.hidden && $(`control-${key}`))
    .map((key) => `${TITLES[key] || data.words[key] || key} = ${caption(key, state[key])}`);
  $("view-title").textContent = chosen.length ? `: ${chosen.join(", ")}` : "";
}
function tableRow(line, xs, marks, letter, audited) {
  const row = document.createElement("tr"), name = element("th", "", { scope: "row" }), isPrivate = line.look.role === "private";
  const flags = (letters) => (letters.length ? [element("sup", [...new Set(letters)].sort().join(""), { class: "flag" })] : []);
  if (isPrivate) {
    const swatch = element("span", "", { class: `swatch${line.look.calibration === "paper" ? " paper" : ""}` });
    swatch.style.color = swatch.style.background = line.look.c;
    name.append(swatch);
  }
  name.append(line.look.name, ...flags(remarks(line).map((remark) => letter(data.remarks[remark]))));
  if (line.look.noise) name.append(element("span", line.look.noise, { class: "noise" }));
  row.append(name);
  const missing = (text, title) => row.append(element("td", text, { class: "missing", ...(title ? { title } : {}) }));
  xs.forEach((x, i) => {
    const point = at(line, x);
    if (!point) return missing("not run", data.remarks["not run"]);
    const { message, status, n_ok, n_failed, q10, q90 } = point.row;
    if (point.y === null) return missing(status === "ok" ? "no value" : status, message);
    const cell = element("td", num(point.y), { class: marks[i](line, point), title: `${repetitions(n_ok)}; 10–90 %: ${num(q10)} to ${num(q90)}` });
    const told = [...(status === "ok" && message ? [message] : []), ...(n_failed ? [data.remarks["some failed"]] : [])];
    cell.append(...flags(told.map(letter)));
    if (se(point) > 0) cell.append(element("span", `± ${errorBar(se(point), point.y)}`, { class: "se" }));
    row.append(cell);
  });
  const none = { zero: "sees no data", public: "sees no private row" }[line.look.role] ?? "not private";
  for (const key of audited ? ["certified", "audited"] : ["certified"]) {
    const proved = span(line.points.map((point) => point.row[key]));
    if (!isPrivate) missing(none, "");
    else if (proved) row.append(element("td", proved, { class: "plain" }));
    else missing("none", "no ε was computed for these cells");
  }
  return row;
}
function csv() {
  const keys = ["mean", "se", "q10", "q90", "n_ok", "n_failed", "n", "d", "s", "steps", "epsilon", "delta", "certified", "audited"];
  const quote = (value) => (/[",\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value);
  const out = [["estimator", "noise", "metric", "panel", state.axis, ...keys].join(",")];
  for (const line of shown.visible) for (const { x, row } of line.points) {
    out.push([line.look.name, line.look.calibration, row.metric, row.panel, x, ...keys.map((key) => row[key] ?? "")].map((v) => quote(String(v))).join(","));
  }
  return out.join("\n") + "\n";
}

// The command that draws the view for a paper.
function figureCommand(visible) {
  const quote = (value) => (/^[\w./^-]+$/.test(value) ? value : `'${String(value).replaceAll("'", "'\\''")}'`);
  const options = { metric: state.metric, panel: state.panel, axis: state.axis, epsilon: state.epsilon, delta: state.delta_rule };
  const start = { ...data.start, delta: data.start.delta_rule };
  const chosen = Object.entries(options).filter(([key, value]) => value !== start[key] && value !== null && value !== "");
  const words = chosen.map(([key, value]) => ` --${key} ${quote(String(value))}`);
  if (state.lines) words.push(` --lines ${quote(visible.map((line) => line.look.brief).join("; "))}`);
  $("figure-command").textContent = `dpcost figure ${data.study}${data.options}${words.join("")} --format pdf --width 3.3in`;
}

// The address keeps what was chosen: "#view&epsilon=2&axis=n", and nothing of what a page begins with.
function remember() {
  const chosen = new URLSearchParams();
  first ??= linked ? data.start : { ...state };
  for (const [key, value] of Object.entries(state)) {
    if (value !== (first[key] ?? "") && value !== null && value !== "" || (key === "calibration" && value)) chosen.set(key, value);
  }
  const text = chosen.toString();
  if (text || location.hash.startsWith("#view&")) history.replaceState(null, "", text ? `#view&${text}` : "#view&");
}
function recall() {
  if (!location.hash.startsWith("#view&")) return false;
  Object.assign(state, data.start, CHOSEN);
  for (const [key, value] of new URLSearchParams(location.hash.slice(6))) {
    if (key in state || SIZES.includes(key)) state[key] = SIZES.includes(key) || key === "epsilon" ? Number(value) : value;
  }
  return true;
}
async function loadLibrary() {
  document.head.append(element("script", await unpacked(library)));
}
document.documentElement.classList.add("live");
const linked = recall();
const loaded = loadLibrary();
loaded.then(draw).then(() => linked && location.hash.length > 6 && $("explorer").scrollIntoView());
window.addEventListener("hashchange", () => recall() && draw());
$("csv").addEventListener("click", (event) => {
  event.target.href = `data:text/csv;charset=utf-8,${encodeURIComponent(csv())}`;
});
$("reset").addEventListener("click", () => {
  Object.assign(state, data.start, CHOSEN);
  draw();
});
let width = $("live-chart").clientWidth;
new ResizeObserver(() => {
  if ($("live-chart").clientWidth !== width) { width = $("live-chart").clientWidth; loaded.then(draw); }
}).observe($("live-chart"));
})();
