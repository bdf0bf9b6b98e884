// Draws the page's chart with the Vega libraries that the page carries; where that fails its static picture stays.
(async () => {
const chart = document.getElementById("chart-data"), library = document.getElementById("vega-library");
if (!chart || !library || !window.DecompressionStream) return;
function unpacked(element) {
  const packed = Uint8Array.from(atob(element.textContent), (char) => char.charCodeAt(0));
  return new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
}
const specification = JSON.parse(await unpacked(chart)), script = document.createElement("script");
script.textContent = await unpacked(library);
document.head.append(script);
if (!window.vegaEmbed) return;
document.documentElement.classList.add("live");
const options = { actions: false, renderer: "svg", bind: "#controls", defaultStyle: false, logLevel: 1, tooltip: { disableDefaultStyle: true } };
const { view } = await vegaEmbed("#live-chart", specification, options);
const menus = [...document.querySelectorAll("#controls select")];
function showMenus() { // the quantity on the axis is not chosen
  for (const menu of menus) menu.closest(".vega-bind").hidden = menu.name === `at_${view.signal("axis")}`;
}
view.addSignalListener("axis", showMenus);
showMenus();
})();
