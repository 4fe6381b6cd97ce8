"use strict";
// Sort a table by a column: a click or Enter on its head; again turns the order round. Rows without a number go last.
for (const button of document.querySelectorAll("th button")) {
  button.addEventListener("click", () => {
    const head = button.closest("th");
    const table = head.closest("table");
    const heads = [...head.parentElement.children];
    const column = heads.indexOf(head);
    const first = button.dataset.first;
    const before = head.getAttribute("aria-sort");
    const order = before === null || before === "none" ? first : before === "ascending" ? "descending" : "ascending";
    for (const other of heads) other.setAttribute("aria-sort", "none");
    head.setAttribute("aria-sort", order);
    const body = table.tBodies[0];
    const key = (row) => row.children[column].dataset.value ?? row.children[column].textContent.trim();
    const rows = [...body.rows].sort((a, b) => {
      const x = key(a), y = key(b);
      const p = parseFloat(x), q = parseFloat(y);
      const numeric = !Number.isNaN(p) && !Number.isNaN(q);
      if (!numeric && button.dataset.kind === "number") return Number.isNaN(p) - Number.isNaN(q);
      const compared = numeric ? p - q : x.localeCompare(y);
      return order === "ascending" ? compared : -compared;
    });
    body.append(...rows);
  });
}
// On paper everything is open.
window.addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details")) details.open = true;
});
