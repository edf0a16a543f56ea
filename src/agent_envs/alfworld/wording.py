"""The fixed texts of ALFWorld's grammar, and how it writes lists."""

from __future__ import annotations

NOTHING = "Nothing happens."
WELCOME = "-= Welcome to TextWorld, ALFRED! =-"
DIALECTS = ("0.4", "0.3")

HELP = """\
Available commands:
  look:                             look around your current location
  inventory:                        check your current inventory
  go to (receptacle):               move to a receptacle
  open (receptacle):                open a receptacle
  close (receptacle):               close a receptacle
  take (object) from (receptacle):  take an object from a receptacle
  {move}:  place an object in or on a receptacle
  examine (something):              examine a receptacle or an object
  use (object):                     use an object
  heat (object) with (receptacle):  heat an object using a receptacle
  clean (object) with (receptacle): clean an object using a receptacle
  cool (object) with (receptacle):  cool an object using a receptacle
  slice (object) with (object):     slice an object using a sharp object
"""
MOVE = {
    "0.4": ("move {} to {}", "You move the {} to the {}."),
    "0.3": ("put {} in/on {}", "You put the {} in/on the {}."),
}
EXAMINED = (  # properties of the object in hand and the words for them; the first match counts
    (("isclean", "ishot", "issliced"), "hot and clean sliced "),
    (("isclean", "iscool", "issliced"), "cool and clean sliced "),
    (("isclean", "issliced"), "clean sliced "),
    (("ishot", "issliced"), "hot sliced "),
    (("iscool", "issliced"), "cool sliced "),
    (("isclean", "ishot"), "hot and clean "),
    (("isclean", "iscool"), "cool and clean "),
    (("ishot",), "hot "),
    (("isclean",), "clean "),
    (("iscool",), "cold "),
)


def enumerated(items: list[str]) -> str:
    """`x`, `x, and y`, `x, y, and z`; `nothing` for none."""
    if len(items) > 1:
        return f"{', '.join(items[:-1])}, and {items[-1]}"
    return items[0] if items else "nothing"
