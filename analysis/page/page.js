// In an editor a click goes to the line; rows and dots light each other; chips are chosen. Nothing here is needed to read.
"use strict";
const editor = typeof acquireVsCodeApi === "function" ? acquireVsCodeApi() : undefined;
const all = (selector, root = document) => [...root.querySelectorAll(selector)];

function goTo(element) {
  const line = Number(element?.dataset.line);
  if (line > 0) editor?.postMessage({ type: "reveal", line });
}
document.addEventListener("click", (event) => goTo(event.target.closest("[data-line]")));
document.addEventListener("keydown", (event) => {
  if (event.key === "Enter") goTo(event.target.closest("[data-line]"));
});

for (const section of all("section.target")) {
  const light = (rows, on) => {
    for (const row of rows) {
      all(`tr[data-row="${row}"]`, section).forEach((each) => each.classList.toggle("lit", on));
      all(`.dot[data-rows~="${row}"]`, section).forEach((each) => each.classList.toggle("lit", on));
    }
  };
  for (const [selector, rowsOf] of [["tr[data-row]", (each) => [each.dataset.row]], [".dot[data-rows]", (each) => each.dataset.rows.split(" ")]]) {
    for (const each of all(selector, section)) {
      each.addEventListener("mouseenter", () => light(rowsOf(each), true));
      each.addEventListener("mouseleave", () => light(rowsOf(each), false));
    }
  }
}

function showChips(chips) {
  for (const box of all("input[data-chip]")) box.checked = chips.includes(box.dataset.chip);
  for (const roof of all(".roof")) roof.classList.toggle("hidden", !chips.includes(roof.dataset.chip));
}
// A chip chosen once stays chosen when the page is drawn anew; the report's own chips are always among them.
const own = all(".roof:not(.hidden)").map((roof) => roof.dataset.chip);
showChips([...own, ...(editor?.getState()?.chips ?? [])]);
document.addEventListener("change", (event) => {
  if (event.target.dataset.chip === undefined) return;
  const chip = event.target.dataset.chip;
  const chosen = new Set(all("input[data-chip]:checked").map((box) => box.dataset.chip));
  if (event.target.checked) chosen.add(chip);
  else chosen.delete(chip);
  showChips([...chosen]);
  editor?.setState({ chips: [...chosen] });
});
