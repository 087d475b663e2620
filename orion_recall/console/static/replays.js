// Looks every two seconds whether the replay still runs, and shows what came of it once it does not.
"use strict";

async function look() {
  try {
    const answer = await fetch("/replays");
    if (answer.ok) {
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (!page.querySelector("#running form")) {
        for (const id of ["saved", "running"])
          document.getElementById(id).replaceChildren(...page.getElementById(id).childNodes);
        return;
      }
      document.getElementById("seconds").textContent = page.getElementById("seconds").textContent;
    }
  } catch (error) { /* the console may be away for a moment */ }
  setTimeout(look, 2000);
}

setTimeout(look, 2000);
