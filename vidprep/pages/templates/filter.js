"use strict";
// An input with data-filters="ID" shows those elements [data-row] below #ID whose text holds all of its words.
for (const input of document.querySelectorAll("input[data-filters]")) {
  const rows = [...document.getElementById(input.dataset.filters).querySelectorAll("[data-row]")];
  const texts = rows.map((row) => row.textContent.toLowerCase());
  const count = input.parentElement.querySelector("output");
  const show = () => {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    let left = 0;
    rows.forEach((row, i) => {
      row.hidden = !words.every((word) => texts[i].includes(word));
      left += !row.hidden;
    });
    count.value = `${left.toLocaleString("en")} of ${rows.length.toLocaleString("en")}`;
  };
  input.addEventListener("input", show);
  show();
}
