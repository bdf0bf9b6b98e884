// Shows the items that match every chosen filter: a select named x hides what lacks its value in data-x.
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
