// Sets the colour scheme before the first paint, so that a dark page never flashes white.
// A file of its own because the content security policy forbids inline scripts.
(function () {
  var wish = null;
  try {
    wish = window.localStorage.getItem("mantine-color-scheme-value");
  } catch {
    // Storage is off: the system's scheme it is.
  }
  var dark =
    wish === "dark" || (wish !== "light" && window.matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.setAttribute("data-mantine-color-scheme", dark ? "dark" : "light");
})();
