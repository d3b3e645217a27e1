"""Builds the shards with an Apache Beam pipeline, on one machine or on many.

Data flow: files -> their contents -> shards to build -> shards.
No TensorFlow; Apache Beam is imported when a build starts.

A shard is one element of the pipeline, which one worker reads the text of,
builds and writes. So no record is ever sent between machines, a worker has one
block in memory, and a shard is the same bytes as that of the local runner,
whose functions these are.
"""

import contextlib
import functools
import importlib.util
import logging
import os
import re
import shlex
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from albert_tf import storage
from albert_tf.data import (
    beam_worker,
    corpus,
    ordered_workers,
    pretraining_instances,
    remote_files,
    shard_writer,
    shards,
    sidecar,
)
from albert_tf.data.corpus import FileContents, WantedFile
from albert_tf.data.pretraining_config import PretrainingDataConfig
from albert_tf.data.sidecar import BuildCounts
from albert_tf.text.tokenizer import Tokenizer

_BAD_LINES = "bad_lines"
_SECONDS_BETWEEN_LOOKS, _MOST_LOOKS = 0.2, 25
# How Beam quotes the error of a worker, and what it adds.
_QUOTED_ERROR = re.compile(r"^(?:[\w.]+\.)?\w*Error: (.+)$", re.MULTILINE)
_ADDITION = re.compile(r" \[while running .*", re.DOTALL)


class ShardTask(NamedTuple):
    """A shard to build, and the blocks to read for it from each file."""

    path: str
    planned: sidecar.Sidecar
    wanted: list[WantedFile]


def run(
    config: PretrainingDataConfig, inputs: Sequence[str], paths: Sequence[str]
) -> shards.Outcome:
    """Builds the shards with a pipeline; arguments are those of `run_here`.

    Raises:
        ImportError: Apache Beam is not installed.
        ChildProcessError: A worker process of this machine died.
        ValueError: A worker failed; the message is its last error.
    """
    own = shards.chosen(config, paths)
    config.load_tokenizer()  # Its errors are plain here.
    config.hashing()
    _check_installed()
    before = remote_files.open_all(storage.version_tag, [*own])
    run_pipeline = functools.partial(_run_pipeline, inputs=inputs, paths=paths)
    try:
        # In a process of its own, which can end at once, whatever Beam's
        # threads wait for.
        with ordered_workers.map_in_order(
            run_pipeline, [config], num_workers=1, in_this_process=False
        ) as results:
            (bad_lines,) = results
    except BaseException:
        _clean_up(own)
        raise
    after = remote_files.open_all(storage.version_tag, [*own])
    found = remote_files.open_all(_read_sidecar, [*own])
    kept: dict[str, BuildCounts] = {}
    built: dict[str, BuildCounts] = {}
    for path, one, other, made in zip(own, before, after, found, strict=True):
        (kept if one == other else built)[path] = made.counts
    return shards.Outcome(kept, built, bad_lines, found[0].duplicates)


def _run_pipeline(
    config: PretrainingDataConfig, inputs: Sequence[str], paths: Sequence[str]
) -> int:
    """Builds the shards; returns the number of bad lines.

    This process must have no other use.
    """
    os.setpgid(0, 0)  # It will end with its workers.
    _silence()
    import apache_beam as beam

    options, runner = _options_and_runner(config)
    pipeline = beam.Pipeline(runner=runner, options=options)
    contents = (
        pipeline
        | "Files" >> beam.Create(list(enumerate(inputs)), reshuffle=True)
        | "Survey" >> beam.Map(_survey, config)
    )
    _ = (
        pipeline
        | "Start" >> beam.Create([None], reshuffle=False)
        | "Plan"
        >> beam.FlatMap(
            _plan, beam.pvalue.AsList(contents), config, list(paths)
        )
        | "Spread" >> beam.Reshuffle()
        | "Build" >> beam.Map(build_shard, config)
    )
    return _committed(finish(pipeline), _BAD_LINES)


def _silence() -> None:
    """Hides Beam's warnings, and the tracebacks of errors that are raised."""
    logging.getLogger("apache_beam").setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(lambda record: record.name != "root")
    threading.excepthook = lambda _: None


def _clean_up(paths: Sequence[str]) -> None:
    """Removes what workers that died have left."""
    for _ in range(_MOST_LOOKS):
        with contextlib.suppress(ValueError):  # They are about to end.
            shards.clean_up(paths)
            return
        time.sleep(_SECONDS_BETWEEN_LOOKS)


def _check_installed() -> None:
    # Its import prints warnings, and belongs into the other process.
    if importlib.util.find_spec("apache_beam") is None:
        raise ImportError(
            "`runner`=beam needs Apache Beam, which wants other packages than "
            "TensorFlow: install requirements-beam.lock into an environment "
            "of its own."
        )


def _survey(
    numbered: tuple[int, str], config: PretrainingDataConfig
) -> tuple[int, FileContents]:
    number, path = numbered
    return number, corpus.survey_file(path, config, config.hashing())


def _plan(
    _: None,
    surveyed: Iterable[tuple[int, FileContents]],
    config: PretrainingDataConfig,
    paths: Sequence[str],
) -> Iterator[ShardTask]:
    """Yields the shards to build."""
    from apache_beam import metrics

    found = sorted(surveyed, key=lambda numbered: numbered[0])
    contents = corpus.join((file for _, file in found), config)
    counter = metrics.Metrics.counter(__name__, _BAD_LINES)
    counter.inc(contents.num_bad_lines)
    planned_shards = shards.plan(
        config, _load_tokenizer(config), contents, paths
    )
    pending = shards.split_planned(planned_shards)[1]
    for path, planned in pending.items():
        yield ShardTask(path, planned, shards.wanted([planned], contents))


def build_shard(task: ShardTask, config: PretrainingDataConfig) -> None:
    """Builds a shard: one element of the pipeline.

    A finished one is kept: engines repeat elements whose worker was lost, and
    others of its bundle.

    Raises:
        ValueError: The vocabulary is not that of the plan; or as
            `shard_writer.write`.
    """
    tokenizer = _load_tokenizer(config)
    if tokenizer.hash != task.planned.tokenizer_hash:
        raise ValueError(
            "The vocabulary is not the same on all machines: "
            f"{config.spm_model_file or config.vocab_file!r}."
        )
    if shards.finished_counts(task.path, task.planned):
        return
    parts = (
        pretraining_instances.build_block(block, tokenizer, config)[
            task.planned.part[0]
        ]
        for block in corpus.read_wanted(task.wanted, config)
    )
    with shards.locked(task.path):
        shard_writer.write(task.path, task.planned, parts)


@functools.lru_cache(maxsize=1)
def _load_tokenizer(config: PretrainingDataConfig) -> Tokenizer:
    """Loads the vocabulary, once in a process."""
    return config.load_tokenizer()


def _read_sidecar(path: str) -> sidecar.Sidecar:
    found = shards.read_sidecar(path)
    if found is None:
        raise ValueError(
            f"The pipeline has ended, but {path!r} is not here. Output files "
            "must be in a folder that this machine and all workers share, or "
            "have a path with a scheme (gs://)."
        )
    return found


def _options_and_runner(config: PretrainingDataConfig) -> tuple[Any, Any]:
    """Returns the options of the pipeline, and the runner of this machine.

    The runner is None if the options name another.
    """
    from apache_beam.options import pipeline_options
    from apache_beam.runners.portability import fn_api_runner

    options = pipeline_options.PipelineOptions(
        shlex.split(config.beam_options or "")
    )
    runner = options.view_as(pipeline_options.StandardOptions).runner
    # Beam's own DirectRunner may fetch another runner from the network.
    if runner not in (None, "DirectRunner"):
        return options, None
    direct = options.view_as(pipeline_options.DirectOptions)
    if config.num_workers > 1:
        direct.direct_num_workers = config.num_workers
        direct.direct_running_mode = "multi_processing"
        _watch_workers()
    return options, fn_api_runner.FnApiRunner()


def _watch_workers() -> None:
    """Lets this process end if one of its workers dies.

    Beam itself would wait for it for ever.
    """
    from apache_beam.portability import python_urns
    from apache_beam.runners.portability.fn_api_runner import worker_handlers

    class WatchedWorkerHandler(worker_handlers.SubprocessSdkWorkerHandler):
        """Starts a worker, and notices its end."""

        def __init__(self, _: bytes, *arguments: Any) -> None:
            python = shlex.quote(sys.executable)
            path = shlex.quote(os.pathsep.join(sys.path))
            super().__init__(
                f"exec env PYTHONPATH={path} {python} -m {beam_worker.__name__}"
                # It prints the tracebacks of errors that it also reports.
                " 2>/dev/null".encode(),
                *arguments,
            )
            self._is_stopped = threading.Event()

        def start_worker(self) -> None:
            super().start_worker()
            threading.Thread(target=self._watch, daemon=True).start()

        def _watch(self) -> None:
            self.worker_thread.join()
            if not self._is_stopped.is_set():
                os.killpg(0, signal.SIGKILL)

        def close(self) -> None:
            self._is_stopped.set()
            super().close()

    worker_handlers.WorkerHandler.register_environment(
        python_urns.SUBPROCESS_SDK, bytes
    )(WatchedWorkerHandler)


def finish(pipeline: Any) -> Any:
    """Runs a pipeline to its end; returns its result.

    Raises:
        ValueError: It failed.
    """
    try:
        result = pipeline.run()
        state = result.wait_until_finish()
    except Exception as error:
        raise ValueError(_cause(error)) from error
    if str(state) != "DONE":
        raise ValueError(f"The pipeline has ended as {state}. See its log.")
    return result


def _cause(error: Exception) -> str:
    """Returns the message of a worker's error, which Beam quotes."""
    quoted = _QUOTED_ERROR.findall(str(error)) or [str(error)]
    return _ADDITION.sub("", quoted[-1])


def _committed(result: Any, name: str) -> int:
    found = result.metrics().query()["counters"]
    return sum(c.result for c in found if c.key.metric.name == name)
