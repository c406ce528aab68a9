// Runs before the first paint: puts the visitor's own choice of light or dark on <html>, if one was made.
// A file of its own because the content security policy allows no script inside the page.
(() => {
  try {
    const theme = localStorage.getItem("jobfarm-theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch {
    // Storage may be forbidden; then the system's choice stands.
  }
})();
