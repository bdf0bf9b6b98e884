// Puts what `look` finds in a page, when the page has drawn, into the element `answer`.
const pause = (ms) => new Promise((done) => setTimeout(done, ms));
async function answer(page, view, look) {
  const chart = page.getElementById("live-chart");
  const live = page.getElementById("chart-data");
  do await pause(50); while (live && !chart.querySelector(".role-axis-label"));
  document.getElementById("answer").textContent = JSON.stringify(await look(page, view));
}
