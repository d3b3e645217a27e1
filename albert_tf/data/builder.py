"""Builds pretraining record files from text files; without TensorFlow.

Data flow: text files -> blocks -> [worker processes: records] -> shards.
A shard, one output file, appears whole, with its sidecar, or not at all, and a
finished shard is not built again.
"""

import dataclasses
import functools
import itertools
import logging
import re
import sys
import time
from collections.abc import Hashable, Sequence

from tqdm import auto

from albert_tf import checks, files, globs, registry
from albert_tf.data import (
    corpus,
    ordered_workers,
    pretraining_instances,
    shard_building,
)
from albert_tf.data.pretraining_config import PretrainingDataConfig
from albert_tf.data.pretraining_instances import BlockPart
from albert_tf.data.shard_building import BuildResult
from albert_tf.data.shards import BuildCounts, Duplicates, Shard
from albert_tf.text import documents
from albert_tf.text.base import Tokenizer

_LOGGER = logging.getLogger(__name__)

# Below 0.1% of English text is unknown to the English vocabulary; capitals
# with a lower-case vocabulary, or a foreign script, give far more.
_MANY_UNKNOWN = 0.05
# The original leaves out 13% to 15% of text with one sentence a line.
_MANY_LEFT_OUT = 0.2
# Part of the wanted share of masks. Whole words that do not fit cost a little.
_FEW_MASKED = 0.75
# Share of the text whose unrelated segments come from its own document.
_MANY_LONE = 0.1
# Documents to search for lines that are no sentence: marks, tags of
# WikiExtractor, `<|endoftext|>`, texts of thousands of words.
_SAMPLE_DOCUMENTS = 100
_NO_SENTENCE = re.compile(
    r"\s*(([*=#~_-])(\s*\2){2,}|</?doc\b.*>|<\|.*\|>)\s*|.{16384,}"
)
# `[URL]` or `<URL>`, but not a byte, `<0x0A>`.
_SYMBOL = re.compile(r"[\[<](?!0x).*[A-Z].*[\]>]")


def build(config: PretrainingDataConfig) -> "BuildReport":
    """Builds record files, each with its sidecar.

    The records depend on the corpus, the vocabulary and
    `config.record_settings()`, and not on the runner or the number of workers.
    Output files that an identical build has finished before are kept.
    """
    started = time.monotonic()

    # 1. Files.
    checks.check_given(config, "input_file", "output_file")
    inputs = globs.expand_globs(config.input_file or "")
    paths = shard_building.output_files(config)
    if paths[0].rpartition("://")[0] not in ("", "gs", "file"):
        _LOGGER.warning(
            "TensorFlow does not read %s. Before you train, copy it, with its "
            "sidecars and indexes, to a local folder.",
            config.output_file,
        )

    # 2. Records.
    runner = registry.RUNNERS.get(config.runner)
    run = registry.load(runner) if runner else run_here
    result: BuildResult = run(config, inputs, paths)

    # 3. Counts, and warnings before anybody trains on the records.
    tokenizer = config.load_tokenizer()
    shards = [*result.finished, *result.built]
    counts = _total(shards)
    if not counts.records and config.shards is None:
        for shard in result.built:
            for suffix in ("", ".index", ".json"):
                files.remove(shard.path + suffix)
        divide = "" if config.keep_more_text else "pass `keep_more_text`, "
        raise ValueError(
            f"No record can be made from {counts.documents} documents with "
            f"{counts.sentences} sentences: a pair needs two sentences of one "
            "document. Put one sentence a line and a blank line between "
            f"documents only, {divide}or use pair_objective='none'."
        )
    report = BuildReport(
        config=config,
        counts=counts,
        built=_total(result.built),
        kept_files=tuple(shard.path for shard in result.finished),
        seconds=time.monotonic() - started,
        num_bad_lines=result.num_bad_lines,
        duplicates=shards[0].duplicates,
        merged_share=_merged_share(config, tokenizer),
    )
    _warn_of_counts(report)
    _warn_of_text(config, tokenizer)
    return report


def run_here(
    config: PretrainingDataConfig, inputs: list[str], paths: list[str]
) -> BuildResult:
    """Builds the shards at `paths` with processes of this machine."""
    # 1. A first reading of the corpus, which divides it into blocks.
    tokenizer = config.load_tokenizer()
    deduplicator = corpus.load_deduplicator(config.deduplicate)
    contents = corpus.survey(
        inputs, config, deduplicator, num_workers=config.num_workers
    )

    # 2. The shards of the blocks, less the finished shards.
    finished, planned = shard_building.plan(config, tokenizer, contents, paths)
    num_parts = {n: s.part[1] for s in planned for n in range(*s.blocks)}

    # 3. A second reading: blocks, their records, shards, all in one order.
    build_block = functools.partial(
        pretraining_instances.build_block, tokenizer=tokenizer, config=config
    )
    blocks = corpus.read_requested(contents.requests(num_parts), config)
    with (
        ordered_workers.map_in_order(
            build_block, blocks, num_workers=config.num_workers
        ) as results,
        auto.tqdm(
            total=sum(contents.block_sizes[block] for block in num_parts),
            unit="char",
            unit_scale=True,
            disable=None if sys.stderr else True,  # off without a terminal
        ) as progress,
    ):
        # Shards come in the order of their blocks; two may share one.
        @functools.lru_cache(maxsize=1)
        def records_of(block: int) -> list[BlockPart]:
            progress.update(contents.block_sizes[block])
            return next(results)

        built = [
            shard_building.write(
                shard,
                (records_of(b)[shard.part[0]] for b in range(*shard.blocks)),
            )
            for shard in planned
        ]
    return BuildResult(finished, built, contents.num_bad_lines)


@dataclasses.dataclass(frozen=True, kw_only=True)
class BuildReport:
    """Reports a build; `str` gives a summary to print.

    `counts` is the total of all shards, `built` of the shards that this run
    built in `seconds`; `kept_files` were already finished.
    """

    config: PretrainingDataConfig
    counts: BuildCounts
    built: BuildCounts
    kept_files: tuple[str, ...]
    seconds: float
    num_bad_lines: int = 0
    duplicates: Duplicates | None = None
    merged_share: float = 0.0

    def __str__(self) -> str:
        counts, config, shares = self.counts, self.config, self.shares
        is_dynamic, copies = config.masking == "dynamic", config.dupe_factor
        num_records = max(1, counts.records)
        mean_length = counts.record_tokens / num_records
        label_1 = f"{counts.label_1_records / num_records:.1%}"
        if config.pair_objective == "none":
            label_1 = "no pairs"
        elif is_dynamic and config.pair_objective == "sop":
            label_1 = "half, drawn when read"
        masked = "drawn when read" if is_dynamic else f"{shares['masked']:.1%}"
        speed = (
            f"{self.built.tokens / self.seconds:,.0f} read, "
            f"{self.built.record_tokens / self.seconds:,.0f} written"
        )
        rows: dict[str, str | bool] = {
            "documents": f"{counts.documents:,}",
            "sentences": f"{counts.sentences:,}",
            "tokens": f"{counts.tokens:,}",
            "unknown tokens": f"{shares['unknown']:.2%}",
            "tokens left out": f"{counts.tokens_left_out:,} of "
            f"{f'{copies} copies' if copies > 1 else 'the text'} "
            f"({shares['left out']:.1%})",
            "records": f"{counts.records:,}",
            "chunks without a pair": f"{counts.chunks_without_pair:,}",
            "label 1": label_1,
            "mean length": f"{mean_length:.1f} of {config.max_seq_length}",
            "padding": f"{1 - mean_length / config.max_seq_length:.1%}",
            "masked tokens": masked,
            "tokens a second": speed
            if self.built.records
            else "nothing to build",
            "lone documents": config.draws_unrelated
            and f"{shares['lone']:.1%} of the tokens",
            "duplicates left out": self.duplicates is not None
            and f"{self.duplicates.documents:,} documents, "
            f"{self.duplicates.characters:,} characters",
            "merged by accents": self.merged_share > 0
            and f"{self.merged_share:.1%} of words",
            "bad lines skipped": self.num_bad_lines > 0
            and f"{self.num_bad_lines:,}",
        }
        return "\n".join(
            [f"{path} is finished; it is kept" for path in self.kept_files]
            + [f"{name:<22} {text}" for name, text in rows.items() if text]
        )

    @property
    def shares(self) -> dict[str, float]:
        """Shares of tokens: of the text, of its copies, and of the records."""
        counts = self.counts
        num_tokens = max(1, counts.tokens)
        return {
            "unknown": counts.unknown_tokens / num_tokens,
            # In a block of a single document.
            "lone": counts.lone_tokens / num_tokens,
            "left out": counts.tokens_left_out
            / (num_tokens * self.config.dupe_factor),
            "masked": counts.masked_tokens / max(1, counts.record_tokens),
        }


def _total(shards: Sequence[Shard]) -> BuildCounts:
    return sum((shard.counts for shard in shards), start=BuildCounts())


def _merged_share(config: PretrainingDataConfig, tokenizer: Tokenizer) -> float:
    def ids_or_unknown(word: str) -> Hashable:
        ids = tuple(tokenizer.encode(word))
        return word if tokenizer.special_ids.unk in ids else ids

    return documents.merged_share(documents.Documents(config), ids_or_unknown)


def _warn_of_counts(report: BuildReport) -> None:
    """Warns of shares of the tokens that are unusual."""
    config, shares = report.config, report.shares
    wanted = config.masked_lm_prob * (2 if config.do_permutation else 1)
    is_few = shares["masked"] < _FEW_MASKED * wanted
    for is_wrong, message in (
        (
            shares["unknown"] > _MANY_UNKNOWN,
            f"{shares['unknown']:.1%} of the tokens are unknown to the "
            "vocabulary. Check that it was made for this language and this "
            "`do_lower_case`.",
        ),
        (
            shares["left out"] > _MANY_LEFT_OUT,
            f"{shares['left out']:.1%} of the text is in no record. "
            + (
                "Documents of a single sentence give no pair: put blank lines "
                "between documents only, or use pair_objective='none'."
                if config.keep_more_text
                else "Put one sentence (not a paragraph) on a line, or pass "
                "keep_more_text, which divides long sentences."
            ),
        ),
        (
            config.draws_unrelated and shares["lone"] > _MANY_LONE,
            f"{shares['lone']:.1%} of the tokens are in a file, or in the rest "
            "of one, with a single document, so their unrelated segments come "
            "from that same document. Put more documents into a file.",
        ),
        (
            config.masking == "static" and is_few,
            f"{shares['masked']:.1%} of the tokens are to be predicted, not "
            f"{wanted:.1%}: max_predictions_per_seq="
            f"{config.max_predictions_per_seq} is too few for max_seq_length="
            f"{config.max_seq_length}. Full records need "
            f"{round(config.max_seq_length * config.masked_lm_prob)}.",
        ),
    ):
        if is_wrong:
            _LOGGER.warning("%s", message)


def _warn_of_text(config: PretrainingDataConfig, tokenizer: Tokenizer) -> None:
    """Warns of lines that are no sentences, and of tokens never found."""
    sample = itertools.islice(documents.Documents(config), _SAMPLE_DOCUMENTS)
    lines = itertools.chain.from_iterable(
        document.sentences() for document in sample if document.is_split
    )
    if line := next(filter(_NO_SENTENCE.fullmatch, lines), None):
        _LOGGER.warning(
            "Lines such as %.60r are read as sentences. Put one sentence on a "
            "line, and a blank line, not a mark, between documents.",
            line,
        )
    names = map(tokenizer.id_to_token, range(tokenizer.vocab_size))
    symbols = {*filter(_SYMBOL.fullmatch, names)}
    symbols -= {*map(tokenizer.id_to_token, tokenizer.forbidden_ids)}
    if symbols and config.spm_model_file and config.do_lower_case:
        _LOGGER.warning(
            "Lower-cased text never has the symbols %s. Train the vocabulary "
            "with them in lower case, or pass --nodo_lower_case.",
            checks.listed(sorted(symbols)),
        )
