"""The commands of `agent-envs retrieval`: serve passages, make a dense index."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from agent_envs.cli.console import make_console

if TYPE_CHECKING:
    from agent_envs.retrieval.passages import Corpus

app = typer.Typer(help="A retrieval server, and dense indexes.", no_args_is_help=True)

Data = Annotated[
    str,
    typer.Option(
        help="A corpus of JSON lines, a folder with corpus.jsonl, or 'auto': $SEARCH_QA_DATA."
    ),
]
Model = Annotated[str, typer.Option(help="The encoder: a sentence-transformers path or name.")]


@app.command()
def serve(
    data: Data = "auto",
    *,
    retriever: Annotated[str, typer.Option(help="bm25, dense or hybrid.")] = "bm25",
    model: Model = "",
    index: Annotated[
        str, typer.Option(help="flat, hnsw, ivf_sq8, or a folder made by `index`.")
    ] = "flat",
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="Port, 0 for a free one.")] = 8000,
    topk: Annotated[int, typer.Option(help="Passages if a request gives no number.")] = 3,
    public: Annotated[
        bool, typer.Option("--public", help="Let other machines connect without a token.")
    ] = False,
) -> None:
    """Serve a corpus with the protocols of Search-R1 and verl-agent until Ctrl-C.

    Clients send the token in $AGENT_ENVS_RETRIEVAL_TOKEN, if it is set.
    """
    from agent_envs.retrieval.client import VARIABLE
    from agent_envs.retrieval.factory import open_retriever
    from agent_envs.retrieval.server import serve as run

    page = make_console()
    corpus = _corpus(data)
    page.print(f"reading {corpus.path}: {len(corpus):,} passages")
    searched = open_retriever(retriever, corpus, model=model, index=index)
    token, ready = os.environ.get(VARIABLE, ""), lambda url: page.print(f"serving {url}")
    run(searched, host, port, topk=topk, token=token, public=public, ready=ready)


@app.command()
def index(
    out: Annotated[Path, typer.Argument(help="Folder for the index.")],
    data: Data = "auto",
    model: Model = "",
    kind: Annotated[str, typer.Option(help="flat, hnsw or ivf_sq8.")] = "flat",
) -> None:
    """Encode a corpus and write a dense index, for --index or index=."""
    from agent_envs.retrieval.dense import Dense
    from agent_envs.retrieval.factory import open_encoder

    corpus = _corpus(data)
    Dense(corpus, open_encoder(model), index=kind).save(out)
    size = sum(file.stat().st_size for file in out.iterdir())
    make_console().print(f"{out}: {kind}, {len(corpus):,} passages, {size / 2**20:,.1f} MiB")


def _corpus(data: str) -> "Corpus":
    """The corpus in a file or folder, or in the folder of "auto"."""
    from agent_envs.assets import MissingAsset, find_data
    from agent_envs.retrieval.passages import Corpus

    path = find_data(data, "SEARCH_QA_DATA")
    if path is None:
        raise MissingAsset("no corpus is named; give a file or folder as --data")
    files = [path] if path.is_file() else sorted(path.glob("corpus.jsonl*"))
    if not files:
        raise MissingAsset(f"no corpus.jsonl in {data}; put one there or name a file")
    found = Corpus(files[0])
    found.reading.report(strict=False)
    return found
