// Gives names that readers' software can say to two kinds of controls that lack them: the search
// button, whose label differs from its text, and the links that lie over pictures of the gallery.
document.addEventListener("DOMContentLoaded", () => {
  for (const button of document.querySelectorAll(".search-button-field")) {
    button.removeAttribute("aria-label");
  }
  for (const link of document.querySelectorAll(".sphx-glr-thumbcontainer a")) {
    link.setAttribute("aria-label", link.textContent.trim());
  }
});
