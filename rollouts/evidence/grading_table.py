"""What people read about grades, summaries, credit and calls, made from a manifest's `grading` section alone.

The source of a grade is in the name of every column and line that shows one: values of different sources are never
read as one. A mean never stands without its coverage.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rich.table import Table
from rich.text import Text

from rollouts.naming import counted

Section = Mapping[str, Any]
_NONE = "-"
_AXES = (("R", "mean_r"), ("goal", "mean_goal"), ("process", "mean_process"), ("satisf.", "mean_satisfaction"))
HEURISTIC_NOTE = "computed from metric, decisions and feedback: no model was asked"
EXPLICIT_NOTE = "people's feedback alone: R is satisfaction alone, goal and process are absent"


def grading_tables(manifest: Mapping[str, Any]) -> list[Table]:
    """A table a grader, a line a scenario, rubric and policy."""
    return [
        _grader_table(grader, title)
        for grader, title in zip(_listed(manifest, "graders"), grader_titles(manifest), strict=True)
    ]


def grade_headings(grader: Section) -> tuple[str, ...]:
    """The names of the number columns: each with the source that it comes from, and the hash that ends a model's id."""
    told = f"{_source(grader)} {grader['grader_id'].rpartition('-')[2]}" if _is_model(grader) else _source(grader)
    return (*(f"{name} ({told})" for name, _ in _AXES), f"graded ({told})")


def grade_cells(group: Section) -> tuple[str, ...]:
    """One line: the means of R and the axes, and right beside them how many grades they are of."""
    return (*(_number(group[key]) for _, key in _AXES), f"{group['graded']:,} of {group['of']:,}")


def _grader_table(grader: Section, title: str) -> Table:
    table = Table(title=Text(title), title_justify="left")
    table.add_column("scenario", no_wrap=True)
    table.add_column("rubric")
    table.add_column("policy", overflow="fold")
    for heading in grade_headings(grader):
        table.add_column(Text(heading.replace(" (", "\n(")), justify="right", no_wrap=True)
    for group in (*grader["groups"], *_whole(grader)):
        names = (group["scenario"], group["rubric"], group["policy"])
        table.add_row(*(Text(cell) for cell in (*names, *grade_cells(group))))
    return table


def _whole(grader: Section) -> list[dict[str, Any]]:
    return [{**grader, "scenario": "all", "rubric": "", "policy": ""}] if len(grader["groups"]) > 1 else []


def grader_titles(manifest: Mapping[str, Any]) -> list[str]:
    """Who graded, what R is, and wherein the models of the run that graded differ."""
    graders = _listed(manifest, "graders")
    told = [_settings(grader) for grader in graders if _is_model(grader)]
    differ = [name for name in _SETTINGS if len({settings[name] for settings in told}) > 1]
    return [_grader_title(grader, differ if _is_model(grader) else ()) for grader in graders]


_SETTINGS = ("language", "reads", "presentation", "context", "prompt")


def _settings(grader: Section) -> dict[str, str]:
    """Each of _SETTINGS in words. A manifest of an earlier version may lack some."""
    reads, most = grader.get("reads"), grader.get("most_characters")
    return {
        "language": f"language {grader.get('language')}",
        "reads": f"reads summaries of {grader.get('summarizer_id')}" if reads == "summaries" else f"reads {reads}",
        "presentation": f"presentation {grader.get('presentation')}",
        "context": _NONE if most is None else f"at most {most:,} characters",
        "prompt": f"prompt {grader.get('prompt_id')} {(grader.get('prompt_sha256') or '')[:8]}".rstrip(),
    }


def _is_model(grader: Section) -> bool:
    return bool(grader["source"] == "llm")


def _source(grader: Section) -> str:
    return str(grader["source"])


def _who(grader: Section) -> str:
    """The source of a grade and whose it is."""
    return f"{_source(grader)} {grader['grader_id']}"


def _grader_title(grader: Section, differ: Iterable[str]) -> str:
    source = grader["source"]
    if source == "explicit":
        return f"explicit grades, {grader['grader_id']}: {EXPLICIT_NOTE}"
    weights = grader["weights"]
    told = f"R = {weights['goal']:g} goal + {weights['process']:g} process + {weights['satisfaction']:g} satisfaction"
    settings = _settings(grader)
    who = HEURISTIC_NOTE if source == "heuristic" else f"model {grader['model']}"
    who = ", ".join((who, *(settings[name] for name in differ)))
    return f"{source} grades, {grader['grader_id']}: {who}; {told}"


def grading_lines(manifest: Mapping[str, Any]) -> list[str]:
    """What must stand under the tables: what is missing and why, what disagrees, what it took."""
    return [
        *(line for grader in _listed(manifest, "graders") for line in _grader_lines(grader)),
        *(_disagreement_line(pair) for pair in _listed(manifest, "disagreements")),
        *(_summarizer_line(summarizer) for summarizer in _listed(manifest, "summarizers")),
        *(_credit_line(credit) for credit in _listed(manifest, "credits")),
        *(line for calls in _listed(manifest, "calls") for line in _call_lines(calls)),
    ]


def _listed(manifest: Mapping[str, Any], name: str) -> list[Section]:
    section = manifest.get("grading") or {}
    return list(section.get(name, ()))


def _grader_lines(grader: Section) -> Iterable[str]:
    source = grader["source"]
    name = f"{source} grades ({grader['grader_id']})"
    yield f"{name}: graded {grader['graded']:,} of {grader['of']:,}" + _more(grader)
    if grader["ungraded_by_cause"]:
        yield f"ungraded ({_who(grader)}): {_counts(grader['ungraded_by_cause'])}"
    if grader["labels_compared"]:
        against, compared = grader["labels_against"], grader["labels_compared"]
        yield f"label against axes ({_who(grader)}): {against:,} of {compared:,} labels contradict the goal axis"
    if grader["n_cut"]:
        yield (
            f"cut ({_who(grader)}): {counted(grader['n_cut'], 'grading')} did not see the whole episode, "
            f"{grader['characters_cut']:,} characters in all"
        )
    if grader["repeats"] > 1 and "repeat_spread" in grader:
        yield f"repeats ({_who(grader)}): {_spread(grader['repeat_spread'])}"


def _spread(spread: Section) -> str:
    if not spread["pairs"]:
        return "undefined, for no episode has two graded repeats"
    return (
        f"{counted(spread['episodes'], 'episode')} with two or more graded repeats, "
        f"mean |ΔR| {spread['mean_abs_r_shift']:.3f} between the first and the others, "
        f"labels differ in {spread['label_disagreement']:.1%} of {counted(spread['pairs'], 'pair')}"
    )


def _more(grader: Section) -> str:
    parts = [f"{grader[key]:,} {word}" for key, word in (("ungraded", "ungraded"), ("owed", "owed")) if grader[key]]
    return "".join(f", {part}" for part in parts)


def _disagreement_line(pair: Section) -> str:
    share = _NONE if pair["rate"] is None else f"{pair['rate']:.1%}"
    shift = _NONE if pair["mean_r_shift"] is None else f"{pair['mean_r_shift']:+.3f}"
    return (
        f"presentation (llm {pair['first']}, {pair['second']}): "
        f"{pair['first_presentation']} and {pair['second_presentation']} disagree on {share} of "
        f"{counted(pair['n'], 'episode')} graded in both, mean R moves by {shift}"
    )


def _summarizer_line(summarizer: Section) -> str:
    entries, degraded = summarizer["entries"], summarizer["degraded"]
    causes = f" ({_counts(summarizer['degraded_by_cause'])})" if summarizer["degraded_by_cause"] else ""
    score = _NONE if summarizer["mean_score"] is None else f"{summarizer['mean_score']:.2f}"
    scored = f"mean score {score} over {entries - degraded:,} scored"
    name = f"summaries ({summarizer['summarizer_id']})"
    of = f"{summarizer['episodes']:,} of {counted(summarizer['of'], 'episode')}"
    return f"{name}: {counted(entries, 'entry')} for {of}, {degraded:,} degraded{causes}, {scored}"


def _credit_line(credit: Section) -> str:
    without = f", {counted(credit['without'], 'episode')} without" if credit["without"] else ""
    return (
        f"credit from {credit['source']} grades of {credit['grader_id']} ({credit['credit_id']}): "
        f"rule {credit['rule']}, gamma {credit['gamma']:g}, {counted(credit['rows'], 'decision')} of "
        f"{counted(credit['episodes'], 'episode')}{without}"
    )


def _call_lines(calls: Section) -> Iterable[str]:
    """None for a model that was never asked, of which not even the role is known here."""
    if not calls["calls"] and not calls["cache_hits"]:
        return
    name = f"calls (llm {calls['kind']} {calls['who']})"
    failed = f", {calls['failed']:,} without an answer" if calls["failed"] else ""
    abandoned = f", {calls['abandoned']:,} abandoned when the run was stopped" if calls["abandoned"] else ""
    yield (
        f"{name}: {counted(calls['calls'], 'call')}, {counted(calls['tries'], 'request')}{failed}{abandoned}, "
        f"{counted(calls['cache_hits'], 'reply')} used again, {counted(calls['tokens_in'], 'token')} in, "
        f"{calls['tokens_out']:,} out, {_cost(calls)}"
    )
    yield f"{name}: queue {_times(calls['queue_ms'])}, answer {_times(calls['answer_ms'])}"
    if calls["adjustments"]:
        yield f"{name}: the endpoint refused, and was sent instead: {_counts(calls['adjustments'])}"


def _cost(calls: Section) -> str:
    if calls["cost_usd"] is None:
        return "cost unknown (no price for the model): tokens only"
    unpriced = calls["calls_without_price"]
    rest = f" and {counted(unpriced, 'call')} without a price" if unpriced else ""
    return f"{calls['cost_usd']:.4f} USD{rest}"


def _times(of: Section) -> str:
    return " / ".join(_NONE if of[key] is None else f"{of[key]:,.0f}" for key in ("p50", "p95")) + " ms p50/p95"


def _counts(of: Mapping[str, int]) -> str:
    return ", ".join(f"{n:,} {name}" for name, n in sorted(of.items(), key=lambda item: (-item[1], item[0])))


def _number(value: float | None) -> str:
    return _NONE if value is None else f"{value:+.3f}"
