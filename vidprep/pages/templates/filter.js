"use strict";
// An input with data-filters="ID" shows those elements [data-row] below #ID whose text, with that of data-group
// around them, holds all of its words; and those [data-group] that have such a row.
for (const input of document.querySelectorAll("input[data-filters]")) {
  const list = document.getElementById(input.dataset.filters);
  const rows = [...list.querySelectorAll("[data-row]")];
  const groups = [...list.querySelectorAll("[data-group]")];
  const texts = rows.map((row) => `${row.textContent} ${row.closest("[data-group]")?.dataset.group ?? ""}`.toLowerCase());
  const count = input.parentElement.querySelector("output");
  const show = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let left = 0;
    rows.forEach((row, i) => {
      row.hidden = !words.every((word) => texts[i].includes(word));
      left += !row.hidden;
    });
    groups.forEach((group) => {
      group.hidden = !group.querySelector("[data-row]:not([hidden])");
    });
    count.value = `${left.toLocaleString("en")} of ${rows.length.toLocaleString("en")}`;
  };
  input.addEventListener("input", show);
  input.addEventListener("change", show);
  show();
}
