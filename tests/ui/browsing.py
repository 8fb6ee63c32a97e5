"""What is seen in a browser: colours, boxes, what is cut."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import FrameLocator, Locator, Page

# Every element with text of its own that is seen: its text, the colour of that, and what is behind it, as painted.
TEXTS = """root => {
  const context = new OffscreenCanvas(1, 1).getContext("2d", {willReadFrequently: true});
  const painted = colour => {
    context.clearRect(0, 0, 1, 1);
    context.fillStyle = colour;
    context.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = context.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const over = ([r, g, b, a], [x, y, z]) => [r * a + x * (1 - a), g * a + y * (1 - a), b * a + z * (1 - a), 1];
  const behind = element => {
    const own = painted(getComputedStyle(element).backgroundColor);
    if (own[3] === 1) return own;
    return over(own, element.parentElement ? behind(element.parentElement) : [255, 255, 255, 1]);
  };
  const opacity = element =>
    Number(getComputedStyle(element).opacity) * (element.parentElement ? opacity(element.parentElement) : 1);
  const found = [];
  for (const element of root.querySelectorAll("*")) {
    const own = [...element.childNodes].filter(n => n.nodeType === Node.TEXT_NODE);
    const text = own.map(n => n.data).join("").trim();
    const unseen = ["TITLE", "SCRIPT", "STYLE", "title"].includes(element.tagName);
    if (!text || unseen || !element.checkVisibility()) continue;
    const style = getComputedStyle(element);
    const [r, g, b, a] = painted(element instanceof SVGElement ? style.fill : style.color);
    const back = behind(element);
    found.push([text, over([r, g, b, a * opacity(element)], back).slice(0, 3), back.slice(0, 3)]);
  }
  return found;
}"""
# What does not fit into its own width: the page, what could be scrolled sideways, and what is hidden with its end.
CUT = """root => {
  const named = one => `${one.tagName} ${one.id || one.className}: ${one.scrollWidth} in ${one.clientWidth}`;
  const parts = root.querySelectorAll(".scroll, dialog, figure, header, section, pre, .acts");
  return [document.documentElement, ...parts].filter(one => one.scrollWidth > one.clientWidth).map(named);
}"""
# Notes what a canvas is told to write, and where, since it was last cleared.
WRITTEN = """
  const proto = CanvasRenderingContext2D.prototype;
  const fill = proto.fillText, clear = proto.clearRect;
  proto.clearRect = function (...args) { this.canvas.written = []; return clear.apply(this, args); };
  proto.fillText = function (text, x, y, ...rest) {
    const size = this.measureText(text), at = this.getTransform().transformPoint({x, y});
    const width = size.actualBoundingBoxLeft + size.actualBoundingBoxRight;
    const box = {text, x: at.x - size.actualBoundingBoxLeft, y: at.y - size.actualBoundingBoxAscent, width,
      height: size.actualBoundingBoxAscent + size.actualBoundingBoxDescent};
    (this.canvas.written ??= []).push(box);
    return fill.call(this, text, x, y, ...rest);
  };
"""


def _luminance(colour: list[float]) -> float:
    parts = [c / 255 for c in colour]
    r, g, b = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


def contrast(one: list[float], other: list[float]) -> float:
    """As WCAG has it: 1 to 21."""
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def too_faint(root: Locator, least: float = 4.5) -> tuple[int, list[str]]:
    """How many texts are seen, and those with less contrast."""
    texts = root.evaluate(TEXTS)
    measured = [(contrast(front, back), f"{text[:40]!r}, {front} on {back}") for text, front, back in texts]
    return len(texts), [f"{ratio:.2f}: {what}" for ratio, what in measured if ratio < least]


def cut(root: Locator) -> list[str]:
    """What is wider than the room it has."""
    found: list[str] = root.evaluate(CUT)
    return found


def overlaps(boxes: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """The pairs of boxes (text, x, y, width, height) that share more than half a pixel."""

    def apart(a: dict[str, Any], b: dict[str, Any], start: str, size: str) -> bool:
        return bool(a[start] + a[size] <= b[start] + 0.5 or b[start] + b[size] <= a[start] + 0.5)

    return [
        (a["text"], b["text"])
        for n, a in enumerate(boxes)
        for b in boxes[n + 1 :]
        if not apart(a, b, "x", "width") and not apart(a, b, "y", "height")
    ]


def boxes_of(found: Locator) -> list[dict[str, Any]]:
    """Where elements are, with their texts."""
    boxes: list[dict[str, Any]] = found.evaluate_all(
        """all => all.map(one => {
          const {x, y, width, height} = one.getBoundingClientRect();
          return {text: one.firstChild?.data ?? one.textContent, x, y, width, height};
        })"""
    )
    return boxes


def inside(page: Page) -> FrameLocator:
    """What Airflow shows in its frame."""
    return page.frame_locator('iframe[title="Streaming apps"], iframe[title="Streams"]')
