// A list of the versions that lie beside this one. They are named by `versions.js` in the folder
// above, a script because a page that is opened from a disk may load a script but fetch no file.
document.addEventListener("DOMContentLoaded", () => {
  const places = document.querySelectorAll(".version");
  const root = new URL(document.documentElement.dataset.content_root || "./", location.href);
  const page = location.href.slice(root.href.length);
  const script = document.createElement("script");
  script.src = new URL("../versions.js", root).href;
  script.onload = () => {
    for (const place of places) {
      const list = document.createElement("select");
      list.setAttribute("aria-label", "Version of the documentation");
      for (const { version, pages } of window.contstimVersions) {
        const option = new Option(version, version, false, version === place.dataset.version);
        // The same page, if that version has it.
        option.dataset.page = pages.includes(page.split(/[?#]/)[0]) ? page : "index.html";
        list.add(option);
      }
      list.onchange = () => {
        const chosen = list.selectedOptions[0];
        location.href = new URL(`../${chosen.value}/${chosen.dataset.page}`, root).href;
      };
      place.replaceChildren(list);
    }
  };
  document.head.append(script);
});
