"""A tiny random model with a tokenizer and chat templates of the usual shapes."""

from __future__ import annotations

import importlib.util
import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    Qwen2_5_VLConfig,
    Qwen2_5_VLForConditionalGeneration,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen2VLImageProcessorPil,
)

from trainer.policy import Policy

TEXT = (
    "You are in the middle of a room. Looking quickly around you, you see a desk 1, a bed 1.\n"
    "Your task is to: put some mug on desk. <think></think><action>go to desk 1</action>\n"
    "Nothing happens. <think>I need a mug.</think><action>take mug 1 from bed 1</action>"
)
CHATML = (  # Qwen2.5, SmolLM2: a default system prompt, a newline after the end of a turn
    "{% if messages[0]['role'] != 'system' %}<|im_start|>system\nBe useful.<|im_end|>\n{% endif %}"
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
LLAMA3 = (  # the content is trimmed, a date that would change by the day
    "{{ '<|begin|>' }}{% for m in messages %}<|head|>{{ m['role'] }}<|/head|>\n\n"
    "{{ m['content'] | trim }}<|eot|>{% endfor %}"
    "{% if not date_string is defined %}{{ strftime_now('%d %b %Y') }}{% endif %}"
    "{% if add_generation_prompt %}<|head|>assistant<|/head|>\n\n{% endif %}"
)
STRIPPING = (  # Qwen3: earlier thinking is dropped from the replies
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n"
    "{% if m['role'] == 'assistant' and not loop.last and '</think>' in m['content'] %}"
    "{{ m['content'].split('</think>')[-1] }}{% else %}{{ m['content'] }}{% endif %}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TEMPLATES = {"chatml": CHATML, "llama3": LLAMA3, "stripping": STRIPPING}
ENDS = {"chatml": "<|im_end|>", "llama3": "<|eot|>", "stripping": "<|im_end|>"}


def tiny_tokenizer(shape: str = "chatml") -> PreTrainedTokenizerFast:
    """A byte-level BPE of a few hundred tokens, so that texts have several tokenisations."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    special = ["<|pad|>", "<|im_start|>", "<|im_end|>", "<|begin|>", "<|head|>", "<|/head|>"]
    trainer = trainers.BpeTrainer(
        vocab_size=330,
        special_tokens=[*special, "<|eot|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator([TEXT], trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=bpe,
        eos_token=ENDS[shape],
        pad_token="<|pad|>",  # noqa: S106 - a token, not a secret
        chat_template=TEMPLATES[shape],
    )


def tiny_model(vocabulary: int, seed: int = 0) -> Qwen2ForCausalLM:
    """Two layers with grouped heads and weights large enough that logits differ."""
    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=vocabulary,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        initializer_range=0.3,
        bos_token_id=None,
        eos_token_id=2,
    )
    return Qwen2ForCausalLM(config).eval()


def tiny_llama(vocabulary: int) -> LlamaForCausalLM:
    """Llama-3.1 made tiny: grouped heads, scaled rotary positions, untied embeddings."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=32,
        intermediate_size=56,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=1,
        max_position_embeddings=2048,
        rope_parameters={
            "rope_type": "llama3",
            "rope_theta": 500000.0,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 512,
        },
        tie_word_embeddings=False,
        initializer_range=0.3,
        bos_token_id=None,
        eos_token_id=6,
    )
    return LlamaForCausalLM(config).eval()


def tiny_eyes(tokenizer: PreTrainedTokenizerFast) -> Qwen2_5_VLForConditionalGeneration:
    """Qwen2.5-VL made tiny; `tokenizer` gets its marks of images."""
    marks = ["<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
    tokenizer.add_special_tokens({"additional_special_tokens": marks})
    start, end, image, video = tokenizer.convert_tokens_to_ids(marks)
    torch.manual_seed(0)
    text = {
        "vocab_size": len(tokenizer),
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "max_position_embeddings": 2048,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [1, 1, 2]},
        "tie_word_embeddings": True,
        "initializer_range": 0.3,
        "bos_token_id": None,
        "eos_token_id": 2,
        "pad_token_id": 0,
    }
    eyes = {
        "depth": 2,
        "hidden_size": 32,
        "intermediate_size": 48,
        "num_heads": 2,
        "out_hidden_size": 32,
        "window_size": 56,
        "fullatt_block_indexes": [1],
    }
    config = Qwen2_5_VLConfig(
        text_config=text,
        vision_config=eyes,
        image_token_id=image,
        video_token_id=video,
        vision_start_token_id=start,
        vision_end_token_id=end,
        tie_word_embeddings=True,
    )
    return Qwen2_5_VLForConditionalGeneration(config).eval()


@pytest.fixture(scope="session")
def vision_folder(tmp_path_factory):
    """A folder of a tiny vision-language model."""
    folder = tmp_path_factory.mktemp("vision")
    tokenizer = tiny_tokenizer()
    tiny_eyes(tokenizer).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    Qwen2VLImageProcessorPil(min_pixels=28 * 28, max_pixels=112 * 112).save_pretrained(folder)
    return folder


@pytest.fixture(scope="session", autouse=True)
def _one_thread():
    torch.set_num_threads(1)


@pytest.fixture
def tiny_policy() -> Policy:
    """A fresh tiny policy, fully trained."""
    tokenizer = tiny_tokenizer()
    return Policy(tiny_model(len(tokenizer)), tokenizer)


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory):
    """A folder as a hub or a path would hold it: weights, tokenizer, chat template."""
    folder = tmp_path_factory.mktemp("tiny")
    tokenizer = tiny_tokenizer()
    tiny_model(len(tokenizer)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def llama_folder(tmp_path_factory):
    """The same with the architecture and the chat template of Llama-3.1."""
    folder = tmp_path_factory.mktemp("llama")
    tokenizer = tiny_tokenizer("llama3")
    tiny_llama(len(tokenizer)).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="session")
def corridor():
    """The module beside this file, imported, with its environment registered as Corridor-v0."""
    path = Path(__file__).with_name("corridor.py")
    spec = importlib.util.spec_from_file_location("corridor", path)
    sys.modules["corridor"] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.register()
    return module


@pytest.fixture
def endpoint(monkeypatch):
    """A rule-based stub of an OpenAI-compatible server; `server.script` says how it misbehaves."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            server = self.server
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            server.asked.append(body)
            status = server.script.pop(0) if server.script else 200
            if status == "slow":
                time.sleep(1.0)
                status = 200
            if status == "dead":
                self.connection.close()
                return
            prompt = body["messages"][0]["content"]
            labels = [0.0 if "(refused)" in turn else 1.0 for turn in prompt.split("Turn ")[1:]]
            text = "I think it went well." if status == "garbage" else json.dumps(labels)
            answer = {
                "id": "1", "object": "chat.completion", "created": 0, "model": body["model"],
                "choices": [{"index": 0, "finish_reason": "stop",
                             "message": {"role": "assistant", "content": text}}],
            }  # fmt: skip
            refusal = {"error": {"message": f"wrong key {self.headers['Authorization']}"}}
            reply = json.dumps(answer if status in {200, "garbage"} else refusal).encode()
            self.send_response(status if isinstance(status, int) else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(reply)))
            self.end_headers()
            self.wfile.write(reply)

        def log_message(self, *_):
            pass

    monkeypatch.setattr("agent_envs.retry.BACKOFF", 0.01)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.script, server.asked = [], []
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()
