// Sets the colour scheme before the first paint, so that a dark page never flashes white.
// A file of its own because the content security policy forbids inline scripts.
(function () {
  var system = window.matchMedia("(prefers-color-scheme: dark)");
  function apply() {
    var wish = null;
    try {
      wish = window.localStorage.getItem("mantine-color-scheme-value");
    } catch {
      // Storage is off: the system's scheme it is.
    }
    var dark = wish === "dark" || (wish !== "light" && system.matches);
    document.documentElement.setAttribute("data-mantine-color-scheme", dark ? "dark" : "light");
  }
  apply();
  // The page follows the system also while the portal itself is not loaded.
  system.addEventListener("change", apply);
})();
