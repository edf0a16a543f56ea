"""A small kitchen in ALFWorld's own file format, written out so that tests can count in it."""

from __future__ import annotations

import json
from typing import Any

OBJECTS = """
agent1 - agent
MugType AppleType KnifeType DeskLampType PanType ForkType BoxType - otype
CounterTopType FridgeType MicrowaveType SinkBasinType DrawerType SideTableType - rtype
Mug_bar_1 Mug_bar_2 Mug_bar_3 Apple_bar_1 Knife_bar_1 DeskLamp_bar_1 - object
Pan_bar_1 Fork_bar_1 Box_bar_1 Unused - object
CounterTop_bar_1 CounterTop_bar_2 Fridge_bar_1 Microwave_bar_1 - receptacle
Sink_bar_1_bar_SinkBasin Drawer_bar_1 SideTable_bar_1 - receptacle
loc_bar_0 loc_bar_1 loc_bar_2 loc_bar_3 loc_bar_4 - location
"""

FACTS = """
(atLocation agent1 loc_bar_0)
(receptacleAtLocation CounterTop_bar_1 loc_bar_1) (receptacleType CounterTop_bar_1 CounterTopType)
(receptacleAtLocation CounterTop_bar_2 loc_bar_1) (receptacleType CounterTop_bar_2 CounterTopType)
(receptacleAtLocation Drawer_bar_1 loc_bar_1) (receptacleType Drawer_bar_1 DrawerType)
(receptacleAtLocation Sink_bar_1_bar_SinkBasin loc_bar_2)
(receptacleType Sink_bar_1_bar_SinkBasin SinkBasinType)
(receptacleAtLocation Fridge_bar_1 loc_bar_3) (receptacleType Fridge_bar_1 FridgeType)
(receptacleAtLocation Microwave_bar_1 loc_bar_3) (receptacleType Microwave_bar_1 MicrowaveType)
(receptacleAtLocation SideTable_bar_1 loc_bar_4) (receptacleType SideTable_bar_1 SideTableType)
(openable Drawer_bar_1) (openable Fridge_bar_1) (openable Microwave_bar_1)
(objectType Mug_bar_1 MugType) (objectType Mug_bar_2 MugType) (objectType Mug_bar_3 MugType)
(objectType Apple_bar_1 AppleType) (objectType Knife_bar_1 KnifeType)
(objectType DeskLamp_bar_1 DeskLampType) (objectType Pan_bar_1 PanType)
(objectType Fork_bar_1 ForkType) (objectType Box_bar_1 BoxType)
(inReceptacle Mug_bar_1 CounterTop_bar_1) (objectAtLocation Mug_bar_1 loc_bar_1)
(inReceptacle Mug_bar_2 CounterTop_bar_1) (inReceptacle Mug_bar_2 CounterTop_bar_2)
(objectAtLocation Mug_bar_2 loc_bar_1)
(inReceptacle Mug_bar_3 Drawer_bar_1) (objectAtLocation Mug_bar_3 loc_bar_1)
(inReceptacle Apple_bar_1 CounterTop_bar_2) (objectAtLocation Apple_bar_1 loc_bar_1)
(inReceptacle Knife_bar_1 CounterTop_bar_2) (objectAtLocation Knife_bar_1 loc_bar_1)
(inReceptacle Pan_bar_1 CounterTop_bar_2) (objectAtLocation Pan_bar_1 loc_bar_1)
(inReceptacleObject Fork_bar_1 Pan_bar_1) (isReceptacleObject Pan_bar_1)
(inReceptacle DeskLamp_bar_1 SideTable_bar_1) (objectAtLocation DeskLamp_bar_1 loc_bar_4)
(inReceptacle Box_bar_1 SideTable_bar_1) (objectAtLocation Box_bar_1 loc_bar_4)
(pickupable Mug_bar_1) (pickupable Mug_bar_2) (pickupable Mug_bar_3) (pickupable Apple_bar_1)
(pickupable Knife_bar_1) (pickupable Pan_bar_1) (pickupable Box_bar_1)
(cleanable Mug_bar_1) (cleanable Mug_bar_2) (cleanable Mug_bar_3) (cleanable Apple_bar_1)
(heatable Mug_bar_1) (heatable Mug_bar_2) (heatable Mug_bar_3) (heatable Apple_bar_1)
(coolable Mug_bar_1) (coolable Mug_bar_2) (coolable Mug_bar_3) (coolable Apple_bar_1)
(sliceable Apple_bar_1) (toggleable DeskLamp_bar_1)
(canContain CounterTopType MugType) (canContain CounterTopType AppleType)
(canContain CounterTopType KnifeType) (canContain DrawerType MugType)
(canContain FridgeType MugType) (canContain FridgeType AppleType) (canContain FridgeType KnifeType)
(canContain MicrowaveType MugType) (canContain SinkBasinType MugType)
(canContain SinkBasinType AppleType) (canContain CounterTopType PanType)
"""

PLACE = """(and (exists (?r - receptacle) (exists (?o - object) (and {also}
 (objectType ?o MugType) (receptacleType ?r {place}) (inReceptacle ?o ?r)))))"""

GOALS = {
    "pick": PLACE.format(also="", place="FridgeType"),
    "clean": PLACE.format(also="(cleanable ?o) (isClean ?o)", place="CounterTopType"),
    "heat": PLACE.format(also="(heatable ?o) (isHot ?o)", place="CounterTopType"),
    "cool": PLACE.format(also="(coolable ?o) (isCool ?o)", place="DrawerType"),
    "pick2": """(and (exists (?r - receptacle) (exists (?o1 - object) (and
        (objectType ?o1 MugType) (receptacleType ?r FridgeType) (inReceptacle ?o1 ?r)
        (exists (?o2 - object) (and (not (= ?o1 ?o2)) (objectType ?o2 MugType)
        (receptacleType ?r FridgeType) (inReceptacle ?o2 ?r)))))))""",
    "look": """(and (exists (?ot - object ?r - receptacle ?a - agent ?l - location) (and
        (objectType ?ot DeskLampType) (toggleable ?ot) (isToggled ?ot)
        (receptacleAtLocation ?r ?l) (atLocation ?a ?l) (inReceptacle ?ot ?r)))
        (exists (?o - object ?a - agent) (and (objectType ?o MugType) (holds ?a ?o))))""",
}


PLACES = {
    "pick": "fridge", "clean": "countertop", "heat": "countertop", "cool": "drawer",
    "pick2": "fridge", "look": "desklamp",
}  # fmt: skip


def problem(goal: str, also: str = "") -> str:
    return f"""(define (problem kitchen)
(:domain alfred)
(:objects {OBJECTS})
(:init {FACTS} {also})
(:goal {goal}))"""


def kitchen_data(task: str = "pick", also: str = "") -> dict[str, Any]:
    rules = {"task": [{"rhs": f"Your task is to: {task} the mug, {PLACES[task]}."}]}
    return {
        "pddl_domain": "(define (domain alfred))",
        "grammar": f'grammar :: """ {json.dumps(rules)} """;',
        "pddl_problem": problem(GOALS[task], also),
        "walkthrough": ["look"],
        "solvable": True,
    }
