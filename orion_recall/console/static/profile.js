// Checks the text of a profile once one has not typed for a moment, as the button does, and shows what was found.
"use strict";
const form = document.getElementById("edited");
const text = document.getElementById("text");
const place = document.getElementById("check");
let timer = 0;
let asked = null;

async function check() {
  asked = new AbortController();
  const fields = new URLSearchParams(new FormData(form));
  fields.set("action", "check");
  try {
    const answer = await fetch(form.getAttribute("action"), { method: "POST", body: fields, signal: asked.signal });
    if (!answer.ok) throw new Error(String(answer.status));
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const found = page.getElementById("check");
    for (const one of found.querySelectorAll("[role=alert], [role=status]")) one.removeAttribute("role");
    place.replaceChildren(...found.childNodes);
  } catch (error) {
    if (error.name !== "AbortError") place.textContent = "The text could not be checked just now.";
  }
}

text.addEventListener("input", () => {
  clearTimeout(timer);
  if (asked) asked.abort();
  timer = setTimeout(check, 600);
});
