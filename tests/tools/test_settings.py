"""The page of settings is the one that the recipes give."""

from tools import settings


def test_the_page_is_current():
    assert settings.PAGE.read_text(encoding="utf-8") == settings.page(), (
        "the recipes changed: python -m tools.settings"
    )
