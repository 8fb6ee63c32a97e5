"""Clicks on the page's button *Roll back…* as a user does. Runs in .venv-ui: ADDRESS TOKEN CHROMIUM APP DEPLOYMENT."""

from __future__ import annotations

import sys

from playwright.sync_api import expect, sync_playwright

WAIT = 300_000  # ms, for what a busy machine may take its time for


def main(address: str, token: str, chromium: str, app: str, deployment: str) -> None:
    """From the navigation to the app's page, and until `deployment` runs there."""
    with sync_playwright() as playwright:
        # --no-sandbox: in a container, as root, Chromium's own sandbox cannot be set up
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        context.set_default_timeout(WAIT)
        context.add_cookies([{"name": "_token", "value": token, "url": address}])
        page = context.new_page()
        page.goto(address)
        page.get_by_role("link", name="Streams").click()
        frame = page.frame_locator('iframe[title="Streams"]')
        frame.locator("#apps tbody tr", has_text=app).get_by_role("link", name=app).first.click()
        frame.get_by_role("button", name="Roll back…").click()
        frame.locator("dialog").get_by_role("button", name="Roll back").click()
        expect(frame.locator("header")).to_contain_text(f"deployment {deployment}", timeout=WAIT)
        expect(frame.locator("header")).to_contain_text("running", timeout=WAIT)
        expect(frame.locator("#updates tbody tr", has_text="rolled back")).to_have_count(1, timeout=WAIT)
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
