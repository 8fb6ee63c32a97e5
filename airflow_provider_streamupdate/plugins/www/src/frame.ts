/** This page inside Airflow's: its colours, and links out of the frame. */

function host(): Window | null {
  try {
    return window.parent !== window && window.parent.document ? window.parent : null;
  } catch {
    return null; // another site's frame
  }
}

/** The colour behind Airflow's page: its body's, or its root's where the body lets that show through. */
function opaque(outside: Window): string | null {
  const { body, documentElement } = outside.document;
  for (const element of [body, documentElement]) {
    const { backgroundColor } = outside.getComputedStyle(element);
    if (!/^(transparent|.*[,/]\s*0?\.?0+\s*\))$/.test(backgroundColor)) return backgroundColor;
  }
  return null;
}

/** Take over Airflow's colours, light or dark, now and whenever they change. */
export function followTheme(changed: () => void): void {
  const outside = host();
  const root = document.documentElement;
  const preferred = matchMedia("(prefers-color-scheme: dark)");
  const apply = (): void => {
    const outer = outside?.document.documentElement;
    const stored = localStorage.getItem("theme");
    const known = outer?.classList.contains("dark") || outer?.classList.contains("light");
    const dark = known
      ? outer?.classList.contains("dark")
      : stored === "dark" || (stored !== "light" && preferred.matches);
    root.dataset.theme = dark ? "dark" : "light";
    if (outside && known) {
      const style = outside.getComputedStyle(outside.document.body);
      const background = opaque(outside);
      if (background) root.style.setProperty("--background", background);
      else root.style.removeProperty("--background");
      root.style.setProperty("--text", style.color);
    }
    changed();
  };
  apply();
  preferred.addEventListener("change", apply);
  window.addEventListener("storage", apply);
  if (outside) {
    new MutationObserver(apply).observe(outside.document.documentElement, { attributeFilter: ["class", "style"] });
  }
}

/** Follow a link outside this frame. Airflow's frame lets a page neither open a window nor leave, so that the link is
 * followed from Airflow's own page. */
export function follow(event: MouseEvent): void {
  const link = event.currentTarget as HTMLAnchorElement;
  const outside = host();
  if (!outside || event.button !== 0) return;
  event.preventDefault();
  const twin = outside.document.createElement("a");
  twin.href = link.href;
  if (link.target) {
    twin.target = link.target;
    twin.rel = "noopener";
  }
  outside.document.body.append(twin);
  twin.click();
  twin.remove();
}

/** An address that may stand in a link: nothing but http and https. */
export const safe = (address: string | null): string | null =>
  address && /^https?:\/\//.test(address) ? address : null;
