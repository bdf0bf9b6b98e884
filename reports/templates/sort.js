for (const table of document.querySelectorAll("table.errors")) {
  const heads = [...table.tHead.rows[1].cells];
  heads.forEach((head, column) => {
    const button = head.querySelector("button");
    if (!button) return;
    button.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const value = (row) => {
        const text = row.cells[column].dataset.v ?? row.cells[column].textContent.trim();
        return text === "" ? Infinity : isNaN(text) ? text : Number(text);
      };
      const order = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b || 0 : String(a).localeCompare(String(b)));
      const body = table.tBodies[0];
      body.append(...[...body.rows].sort((a, b) => (up ? 1 : -1) * order(value(a), value(b))));
    });
  });
}
