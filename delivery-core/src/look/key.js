(() => {
  const key = document.getElementById("key");
  const other = document.getElementById("other");
  const take = () => {
    const text = location.hash.slice(1);
    // Mail programs add what follows a link. The server finds the key in it.
    const isKey = /_[0-9a-z]{48}/i.test(text);
    // Also makes "back" and "reload" ask for this page anew, in place of sending its form again.
    if (isKey || !location.hash) history.replaceState(null, "", location.pathname + location.search);
    if (isKey && key) key.value = text;
    if (isKey && other) {
      other.elements.key.value = text;
      other.submit();
    }
  };
  if (key || other) {
    take();
    addEventListener("hashchange", take);
  }
  // A button copies the text of an element, or its own: lists show identifiers shortened.
  for (const button of document.querySelectorAll("button[data-copy], button[data-text]")) {
    button.hidden = !navigator.clipboard;
    button.addEventListener("click", async () => {
      const { copy, text, done, failed } = button.dataset;
      const from = document.getElementById(copy);
      const said = document.getElementById(button.dataset.said ?? "said");
      for (const other of document.querySelectorAll("button[data-text]")) other.textContent = "";
      said.textContent = "";
      try {
        await navigator.clipboard.writeText(text ?? from.value ?? from.textContent);
        said.textContent = done ?? "Copied.";
        if (text) button.textContent = "✓";
      } catch {
        said.textContent = failed ?? "The browser does not allow it: select the text.";
        if (text) button.previousElementSibling.textContent = text;
      }
    });
  }
})();
