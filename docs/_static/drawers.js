// On small screens the theme opens its menus by labels of hidden checkboxes, which no key reaches.
for (const label of document.querySelectorAll(".nav-overlay-icon, .toc-overlay-icon")) {
  const box = document.getElementById(label.htmlFor);
  const tell = () => label.setAttribute("aria-expanded", String(box.checked));
  label.tabIndex = 0;
  label.setAttribute("role", "button");
  label.setAttribute("aria-label", box.getAttribute("aria-label"));
  box.addEventListener("change", tell);
  tell();
  label.addEventListener("keydown", (event) => {
    if (event.key === "Enter" || event.key === " ") {
      event.preventDefault();
      label.click();
    }
  });
}
