(() => {
  // Shows a preview beside the form without loading the page again. Whatever else the server answers, or if the page
  // shows an error, the form is sent as without this script.
  for (const form of document.querySelectorAll("form[data-preview]")) {
    let turns = 0;
    form.addEventListener("submit", async (event) => {
      const button = event.submitter;
      const isWhole = form.dataset.preview === "whole" || document.querySelector("[role=alert]");
      if (button?.value !== "preview" || isWhole) return;
      event.preventDefault();
      turns += 1;
      const turn = turns;
      const fields = new URLSearchParams(new FormData(form));
      fields.append(button.name, button.value);
      const answer = await fetch(form.action, { method: "POST", body: fields }).then((it) => it.text(), () => "");
      const page = new DOMParser().parseFromString(answer, "text/html");
      const shown = page.getElementById("preview")?.parentElement;
      if (turn !== turns) return;
      if (!shown || page.querySelector("[role=alert]")) {
        form.dataset.preview = "whole";
        form.requestSubmit(button);
        return;
      }
      document.getElementById("preview").parentElement.replaceWith(shown);
      const { top, bottom } = shown.getBoundingClientRect();
      if (bottom < 0 || top > innerHeight) shown.scrollIntoView();
      if (document.activeElement === button) shown.focus({ preventScroll: true });
    });
  }
  for (const form of document.querySelectorAll("form[data-upload]")) {
    const bar = form.querySelector("progress");
    const said = form.querySelector("[role=status]");
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const request = new XMLHttpRequest();
      request.open("POST", form.action);
      request.upload.addEventListener("progress", (sent) => {
        bar.hidden = false;
        bar.max = sent.total;
        bar.value = sent.loaded;
        said.textContent = `${Math.floor((100 * sent.loaded) / sent.total)} %`;
      });
      request.addEventListener("load", () => {
        const page = new DOMParser().parseFromString(request.responseText, "text/html");
        const fault = page.querySelector("[role=alert]") ?? (request.status < 400 ? null : page.querySelector("main p"));
        if (fault || request.status >= 400) {
          bar.hidden = true;
          said.textContent = fault ? fault.textContent : "The server refused the file.";
        } else {
          location.assign(request.responseURL);
        }
      });
      request.addEventListener("error", () => {
        bar.hidden = true;
        said.textContent = "The connection was lost. Nothing of the file was kept: send it again.";
      });
      request.send(new FormData(form));
    });
  }
})();
