"""Builds the shards with an Apache Beam pipeline, on one machine or on many.

Data flow: files -> their contents -> shards to build -> shards.

A shard is one element of the pipeline, which one worker reads the text of,
builds and writes. So no record is ever sent between machines, a worker has one
block in memory, and a shard has the same bytes as with the local runner, whose
functions it calls.
"""

import functools
import logging
import re
import shlex
import threading
from collections.abc import Iterable, Iterator
from typing import Any

from albert_tf import files, globs
from albert_tf.data import (
    corpus,
    ordered_workers,
    pretraining_instances,
    shard_building,
    shards,
)
from albert_tf.data.corpus import FileContents, FileRequest
from albert_tf.data.pretraining_config import PretrainingDataConfig
from albert_tf.data.shard_building import BuildResult
from albert_tf.data.shards import Shard

_BAD_LINES = "bad_lines"
# Beam's quotation of the error of a worker, and its addition to it.
_QUOTED_ERROR = re.compile(r"^(?:[\w.]+\.)?\w*Error: (.+)$", re.MULTILINE)
_ADDITION = re.compile(r" \[while running .*", re.DOTALL)


def run(
    config: PretrainingDataConfig, inputs: list[str], paths: list[str]
) -> BuildResult:
    """Builds the shards with a pipeline; arguments as `builder.run_here`."""
    options = config.beam_options or ""
    if "DaskRunner" in options and "--dask_client_address" not in options:
        raise ValueError(
            "Dask's runner needs a running cluster. Add the address of its "
            "scheduler to --beam_options: --dask_client_address=HOST:PORT."
        )
    chosen = shard_building.chosen(config, paths)
    config.load_tokenizer()  # Its errors are plain here.
    corpus.load_deduplicator(config.deduplicate)
    before = globs.for_all(files.status, chosen)
    run_pipeline = functools.partial(_run_pipeline, inputs=inputs)
    # In a process of its own, which can end at once, whatever Beam's threads
    # wait for.
    with ordered_workers.map_in_order(
        run_pipeline, [config], num_workers=1, may_be_here=False
    ) as results:
        (num_bad_lines,) = results
    now = globs.for_all(files.status, chosen)
    try:
        written = globs.for_all(shards.read, chosen)
    except FileNotFoundError as error:
        raise ValueError(
            f"The pipeline has ended, but a shard is not here: {error}. Output "
            "files must be in a folder that this machine and all workers "
            "share, or have a path with a scheme (gs://)."
        ) from error
    result = BuildResult(finished=[], built=[], num_bad_lines=num_bad_lines)
    for shard, old, new in zip(written, before, now, strict=True):
        (result.finished if old == new else result.built).append(shard)
    return result


def _run_pipeline(config: PretrainingDataConfig, inputs: list[str]) -> int:
    """Builds the shards; returns the number of bad lines, if it is counted.

    This process must have no other use.
    """
    # Beam's warnings, and the tracebacks of errors that are raised, are hidden.
    logging.getLogger("apache_beam").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(lambda record: record.name != "root")
    threading.excepthook = lambda _: None
    import apache_beam as beam
    from apache_beam.options import pipeline_options
    from apache_beam.runners.portability import fn_api_runner

    arguments = shlex.split(config.beam_options or "")
    options = pipeline_options.PipelineOptions(arguments)
    named = options.view_as(pipeline_options.StandardOptions).runner
    # Beam's own DirectRunner may fetch another runner from the network.
    is_here = named in (None, "DirectRunner")
    runner = fn_api_runner.FnApiRunner() if is_here else None
    deduplicator = corpus.load_deduplicator(config.deduplicate)
    pipeline = beam.Pipeline(runner=runner, options=options)
    contents = (
        pipeline
        | "Files" >> beam.Create(inputs, reshuffle=True)
        | "Survey" >> beam.Map(corpus.survey_file, config, deduplicator)
    )
    _ = (
        pipeline
        | "Start" >> beam.Create([None], reshuffle=False)
        | "Plan"
        >> beam.FlatMap(_plan, beam.pvalue.AsList(contents), config, inputs)
        | "Spread" >> beam.Reshuffle()
        | "Build"
        >> beam.MapTuple(functools.partial(build_shard, config=config))
    )
    result = finish(pipeline)
    try:
        counters = result.metrics().query()["counters"]
    except NotImplementedError:  # Dask's runner has none.
        return 0
    return sum(c.result for c in counters if c.key.metric.name == _BAD_LINES)


def _plan(
    _: None,
    surveyed: Iterable[FileContents],
    config: PretrainingDataConfig,
    inputs: list[str],
) -> Iterator[tuple[Shard, list[FileRequest]]]:
    """Yields the shards to build, and the blocks to read for each by file."""
    from apache_beam import metrics

    by_path = {file.path: file for file in surveyed}
    contents = corpus.join(
        [by_path[path] for path in inputs],
        config,
        corpus.load_deduplicator(config.deduplicate),
    )
    counter = metrics.Metrics.counter(__name__, _BAD_LINES)
    counter.inc(contents.num_bad_lines)
    tokenizer = _load_tokenizer(config)
    paths = shard_building.output_files(config)
    for shard in shard_building.plan(config, tokenizer, contents, paths)[1]:
        num_parts = dict.fromkeys(range(*shard.blocks), shard.part[1])
        yield shard, contents.requests(num_parts)


def build_shard(
    shard: Shard, requests: list[FileRequest], config: PretrainingDataConfig
) -> None:
    """Builds a shard: one element of the pipeline."""
    tokenizer = _load_tokenizer(config)
    if tokenizer.fingerprint != shard.tokenizer_hash:
        raise ValueError(
            "The vocabulary is not the same on all machines: "
            f"{config.spm_model_file or config.vocab_file!r}."
        )
    # Engines repeat elements whose worker was lost, and others of its bundle.
    if shard_building.finished(shard):
        return
    blocks = corpus.read_requested(requests, config)
    parts = (
        pretraining_instances.build_block(block, tokenizer, config)
        for block in blocks
    )
    shard_building.write(shard, (of_block[shard.part[0]] for of_block in parts))


# Once in a process.
_load_tokenizer = functools.lru_cache(maxsize=1)(
    PretrainingDataConfig.load_tokenizer
)


def finish(pipeline: Any) -> Any:
    """Runs a pipeline to its end; raises the error of a worker."""
    try:
        result = pipeline.run()
        result.wait_until_finish()
    except Exception as error:
        quoted = _QUOTED_ERROR.findall(str(error)) or [str(error)]
        raise ValueError(_ADDITION.sub("", quoted[-1])) from error
    return result
