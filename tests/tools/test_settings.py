"""The page of settings has every sourced number of the recipes."""

from tools.site import settings
from trainer import recipes


def test_every_part_with_sources_is_on_the_page():
    page = settings.page()
    for axis in recipes.AXES:
        for name in recipes.names(axis):
            part = recipes.part(axis, name)
            for others, found in {(): part.settings, **part.when}.items():
                beside = f" with {' and '.join(others)}" if others else ""
                for key, one in found.items():
                    row = f"| `{recipes.join_key(key)}`{beside} | {one.value} | "
                    assert not one.source or row in page, (name, key)
    assert "| `env.max_turns` with alfworld | 50 | STAPO App. E |" in page
