"""The page of settings has every sourced number of the recipes."""

from tools.site import settings
from trainer import recipes


def test_every_part_with_sources_is_on_the_page():
    page = settings.page()
    for axis in recipes.AXES:
        for name in recipes.names(axis):
            found = recipes.part(axis, name).settings
            sourced = {recipes.join_key(key): one for key, one in found.items() if one.source}
            for key, one in sourced.items():
                assert f"| `{key}` | {one.value} | " in page, (name, key)
    assert "| `env.max_turns` | 50 | STAPO App. E |" in page
