"""Search-R1's texts and rewards, to the byte."""

from __future__ import annotations

import pytest

from agent_envs.search_qa import search_r1

SHORT = "For example, <answer> Beijing </answer>. Question: x?\n"
CHAT = f"<|im_start|>user\n{SHORT}<|im_end|>\n<|im_start|>assistant\n"
GOLDS = ("Beatles",)


def score(text, golds=GOLDS, given=1):
    answer = search_r1.find_answer(text, given=given)
    return search_r1.score_em(answer, golds), search_r1.score_sub_em(answer, golds)


def test_the_references_rewards(golden):
    outcomes = {name: case for name, case in golden.items() if "em" in case}
    assert len(outcomes) == 6
    for name, case in outcomes.items():
        assert score(case["text"]) == (case["em"], case["subem"]), name
    cases = {name: case for name, case in golden.items() if name.startswith("fmt:")}
    assert len(cases) == 7
    for name, case in cases.items():
        assert search_r1.score_format(case["text"], GOLDS) == pytest.approx(case["score"]), name


@pytest.mark.parametrize(
    ("reply", "kept", "action"),
    [
        ("a<search>\n b \n</search>c</search>", "a<search>\n b \n</search>", ("search", "b")),
        (
            "<answer>a</answer><search>b</search>",
            "<answer>a</answer><search>b</search>",
            ("answer", "a"),
        ),
        ("<answer>a</answer> so</answer>", "<answer>a</answer>", ("answer", "a")),
        (
            "<think><answer>a</answer></think>",
            "<think><answer>a</answer>",
            ("answer", "a"),
        ),  # in a thought as well
        ("<Search>b</Search> c", "<Search>b</Search> c", ("", "")),
        ("<search>b", "<search>b", ("", "")),
    ],
)
def test_what_a_reply_asks_for(reply, kept, action):
    assert search_r1.cut_reply(reply) == kept
    assert search_r1.read_action(kept) == action


@pytest.mark.parametrize(
    ("said", "em"),
    [
        ("<answer>the beatles!</answer>", 1),
        ("<answer>beatles</answer><answer>stones</answer>", 0),  # the last counts
        ("<information><answer>beatles</answer></information>", 1),  # whoever wrote it
        ("<answer>beatles", 0),
        ("", 0),
    ],
)
def test_the_outcome_reward_reads_everything_again(said, em):
    assert score(SHORT + said)[0] == score(said, given=0)[0] == em  # the latter as in verl-agent
    assert score(said)[0] == 0 or said.count("<answer>") > 1  # needs two answers


@pytest.mark.parametrize(
    ("answer", "gold", "scores"),
    [
        ("whatever", "the", (0, 1)),  # nothing is left of the accepted answer
        ("a", "the", (1, 1)),
        ("Yorkshire", "York", (0, 1)),
    ],
)
def test_rewards_compare_characters(answer, gold, scores):
    assert score(f"{SHORT}<answer>{answer}</answer>", [gold]) == scores


FOUND = "<think>a</think> <search>q</search>\n\n<information>The Beatles.</information>\n\n"
MISSED = FOUND.replace("Beatles", "Stones")


@pytest.mark.parametrize(
    ("said", "reward"),
    [
        (FOUND + "<think>b</think><answer>Beatles</answer>", 1.0),
        ("<answer>Beatles</answer>", 0.8),
        (FOUND + "<think>b</think><answer>Stones</answer>\n", 0.3),
        (MISSED + "<think>b</think><answer>Stones</answer>", 0.2),
        (FOUND + "hm<answer>Stones</answer>", 0.1),  # found, but not well formed
        ("<answer>Stones</answer>", 0.1),
        (FOUND, 0.0),
        (FOUND + search_r1.INVALID + "<think>b</think><answer>Beatles</answer>", 0.8),
    ],
)
def test_the_format_variants_table(said, reward):
    assert search_r1.score_format(CHAT + said, GOLDS) == pytest.approx(reward)


def test_the_format_variant_without_the_prompts_example_pays_for_form_alone():
    said = "<|im_start|>assistant\n<think>a</think><answer>Beatles</answer>"
    assert search_r1.score_format(said, GOLDS) == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("said", "formed"),
    [
        (f"\n{FOUND} \n<think></think><answer></answer>\n", True),
        (FOUND + FOUND + "<think>c</think><answer>b</answer>", True),
        ("<think>a</think><answer>b</answer> bye", False),
        ("<answer>b</answer>", False),
        ("so <think>a</think><answer>b</answer>", False),
        ("<think>a</think><think>a</think><answer>b</answer>", False),
        ("<think>a</think><search>q</search><answer>b</answer>", False),
        ("<think>a</think><search>q</search><information>i</information><answer>b</answer>", False),
        ("<think>a <think>b</think><answer>b</answer>", False),
        ("<think>a</think><answer>b</answer><think>a</think><answer>b</answer>", False),
        ("<think>a</think>", False),
    ],
)
def test_what_is_well_formed(said, formed):
    assert search_r1.is_well_formed("<|im_start|>assistant" + said) is formed
    assert not search_r1.is_well_formed(said)  # without the assistant's mark
