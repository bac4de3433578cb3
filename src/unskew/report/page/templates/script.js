"use strict";
(() => {
  const root = document.documentElement;

  // Light and dark: the reader's system decides until the button is pressed.
  const theme = document.getElementById("theme");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (root.dataset.theme || (dark.matches ? "dark" : "light")) === "dark";
  const nameTheme = () => { theme.textContent = isDark() ? "Light" : "Dark"; theme.setAttribute("aria-label", `Switch to ${isDark() ? "light" : "dark"} colours`); };
  theme.addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; nameTheme(); });
  dark.addEventListener("change", nameTheme);
  nameTheme();

  // Tables behind the plots, all at once: for reading aloud, for printing.
  const openTables = document.getElementById("open-tables");
  openTables.addEventListener("click", () => {
    const open = openTables.getAttribute("aria-pressed") !== "true";
    document.querySelectorAll("details.behind").forEach((each) => { each.open = open; });
    openTables.setAttribute("aria-pressed", String(open));
    openTables.textContent = open ? "Close all tables" : "Open all tables";
  });

  // Sorting: by number where a cell has one, else by text; what is missing stays last.
  const collator = new Intl.Collator(undefined, { numeric: true });
  const keyOf = (row, column) => {
    const cell = row.cells[column];
    return cell.hasAttribute("data-v") ? Number(cell.getAttribute("data-v")) : cell.textContent.trim();
  };
  const compare = (a, b) => {
    if (typeof a === "number" && typeof b === "number") return a - b;
    return collator.compare(String(a), String(b));
  };
  const missing = (key) => typeof key === "string" && (key === "" || key === "–");
  document.querySelectorAll("th[aria-sort] > button").forEach((button) => {
    button.addEventListener("click", () => {
      const head = button.parentElement;
      const body = head.closest("table").tBodies[0];
      const rising = head.getAttribute("aria-sort") === "none" ? !head.classList.contains("n") : head.getAttribute("aria-sort") === "descending";
      for (const other of head.parentElement.cells) if (other.hasAttribute("aria-sort")) other.setAttribute("aria-sort", "none");
      head.setAttribute("aria-sort", rising ? "ascending" : "descending");
      const keyed = [...body.rows].map((row) => [keyOf(row, head.cellIndex), row]);
      keyed.sort(([a], [b]) => missing(a) - missing(b) || (rising ? 1 : -1) * compare(a, b));
      body.append(...keyed.map(([, row]) => row));
    });
  });

  // Filtering: rows that hold every word.
  document.querySelectorAll(".filter input").forEach((input) => {
    const box = input.closest(".table-box");
    const status = box.querySelector("[role=status]");
    input.addEventListener("input", () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      const rows = [...box.querySelector("tbody").rows];
      rows.forEach((row) => { const text = row.textContent.toLowerCase(); row.hidden = !words.every((word) => text.includes(word)); });
      const shown = rows.filter((row) => !row.hidden).length;
      status.textContent = words.length ? `${shown.toLocaleString("en")} of ${rows.length.toLocaleString("en")} rows` : `${rows.length.toLocaleString("en")} rows`;
    });
  });

  // Contents: closed on a narrow screen, the section being read marked.
  const contents = document.querySelector(".contents details");
  const narrow = matchMedia("(max-width: 63rem)");
  const fold = () => { contents.open = !narrow.matches; };
  narrow.addEventListener("change", fold);
  fold();
  contents.addEventListener("click", (event) => { if (narrow.matches && event.target.closest("a")) contents.open = false; });
  const links = new Map([...document.querySelectorAll(".contents a")].map((link) => [link.hash.slice(1), link]));
  const watcher = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      links.forEach((link) => link.removeAttribute("aria-current"));
      links.get(entry.target.id)?.setAttribute("aria-current", "true");
    }
  }, { rootMargin: "-20% 0px -70% 0px" });
  document.querySelectorAll("main > section").forEach((section) => watcher.observe(section));
})();
