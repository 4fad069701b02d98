// What the theme and the extensions leave undone for keyboards and readers' software: labels that
// differ from the text they stand for, links over pictures without a name, tables that only a mouse
// can move.
document.addEventListener("DOMContentLoaded", () => {
  for (const summary of document.querySelectorAll("details.hide > summary")) {
    summary.removeAttribute("aria-label");
  }
  // On narrow screens the button shows its picture alone, so the label stays.
  for (const button of document.querySelectorAll(".search-button-field")) {
    button.setAttribute("aria-label", button.textContent.trim().replace(/\s+/g, " ") || "Search");
  }
  for (const link of document.querySelectorAll(".sphx-glr-thumbcontainer a")) {
    link.setAttribute("aria-label", link.textContent.trim());
  }
  for (const table of document.querySelectorAll(".bd-article table")) {
    if (table.scrollWidth > table.clientWidth) {
      table.tabIndex = 0;
    }
  }
});
