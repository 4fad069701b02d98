// For every browser, however old: if a script of the page is missing or cannot be read, say so at
// once; the style sheet says it after some seconds, whatever the reason. What the page shows itself
// takes the message away.

(function () {
  /** @param {Event} event */
  function tell(event) {
    var late = document.getElementById("late");
    if (late) late.className = "wait late now";
    else if (event.type === "error") setTimeout(tell, 50, event); // the page is still being read
  }
  // Scripts that do not load are heard of only on the way down.
  addEventListener("error", tell, true);
  addEventListener("unhandledrejection", tell);
})();
