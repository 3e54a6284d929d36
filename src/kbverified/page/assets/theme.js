// Light, dark, or as the system has it; and the colours that drawings take from the style sheet.

const KEY = "leaderboard-theme";
const NEXT = { auto: "dark", dark: "light", light: "auto" };

function stored() {
  try {
    const value = localStorage.getItem(KEY);
    return Object.hasOwn(NEXT, value ?? "") ? value : "auto";
  } catch {
    return "auto"; // a browser may keep no storage for files
  }
}

/** Set up the button; `changed` is called whenever colours are others than before. */
export function theme(button, changed) {
  let now = stored();
  const apply = () => {
    if (now === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = now;
    button.textContent = `Theme: ${now}`;
  };
  button.addEventListener("click", () => {
    now = NEXT[now];
    try {
      localStorage.setItem(KEY, now);
    } catch {
      /* it lasts as long as the page */
    }
    apply();
    changed();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", changed);
  apply();
}

/** A colour of the style sheet by its name without dashes. */
export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

const SERIES = 8;

/** The colour of the n-th generator: told apart by most readers who see fewer colours; the ninth begins again. */
export function seriesColour(index) {
  return colour(`series-${index % SERIES}`);
}
