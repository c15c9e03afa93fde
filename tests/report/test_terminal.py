import dataclasses
import re

import pytest

from stethoscope.report.terminal import render

ANSI = re.compile(r"\x1b\[[0-9;]*m")


def plain(*reports, verbose=False, width=100):
    return render(reports, color=False, verbose=verbose, width=width)


def test_reads_top_down_verdict_what_where_why_change(faulty):
    text = plain(faulty)
    order = [
        "FAULTY   train.py   Keras 3.15.1 on jax, 40 steps seen",
        "1  single-unit-softmax   error, certain",
        'train.py:14   model.add(Dense(1, activation="softmax"))',
        "layer dense_2, after activation (EAA), known before step 1",
        "Softmax over one unit is 1.0",
        "evidence   output of all 32 samples = 1; loss is nan; gradient norm of dense_2/kernel 0 <",
        'change     activation "softmax" -> "sigmoid"',
        "or         two units",
        "explains   unchanged-weight (dense, dense_1)",
        "31 checks ran, 2 could not (--verbose says why); overhead 2.1 %; trace",
    ]
    places = [text.index(part) for part in order]
    assert places == sorted(places)
    assert "`stethoscope explain single-unit-softmax`" in text  # in one line, to be copied


def test_what_a_person_must_act_on_fits_one_screen(crowded):
    text = plain(crowded)
    assert len(text.splitlines()) <= 40
    assert "tiny-batch-batchnorm" not in text  # a note
    assert "1 note (--verbose)" in " ".join(text.split())


def test_verbose_shows_notes_reasons_and_the_path_of_questions(crowded):
    text = plain(crowded, verbose=True)
    for part in ("tiny-batch-batchnorm", "G001       gradients are not seen", "a third way"):
        assert part in text
    assert "Is the softmax over one unit? yes, 1" in text


def test_event_says_when_it_was_seen_and_confirmed(crowded):
    assert "first seen at step 12, confirmed at step 30" in plain(crowded)


def test_healthy_says_cm(healthy):
    lines = plain(healthy).splitlines()
    assert lines[0].startswith("HEALTHY  CM (correct model)   train.py")
    assert lines[1] == "The loss fell from 0.7 to 0.1."


def test_undetermined_says_why(undetermined):
    assert plain(undetermined).splitlines()[1] == "Only 3 steps were seen."


def test_several_runs_give_a_block_each(healthy, faulty):
    text = plain(healthy, faulty)
    assert text.index("run 1, 40 steps") < text.index("FAULTY") < text.index("run 2, 40 steps")


def test_colour_changes_nothing_but_colour(crowded):
    coloured = render([crowded], color=True, verbose=True, width=100)
    assert ANSI.search(coloured)
    assert ANSI.sub("", coloured) == plain(crowded, verbose=True)


@pytest.mark.parametrize("width", [40, 80, 200])
def test_prose_is_wrapped(crowded, width):
    lines = plain(crowded, width=width).splitlines()
    assert max(len(line) for line in lines) <= max(width, 60)


def test_brackets_of_a_user_are_no_markup(faulty):
    odd = dataclasses.replace(faulty, meta={**faulty.meta, "script": "a[bold]b[/bold].py"})
    assert "a[bold]b[/bold].py" in plain(odd)


def test_a_short_run_says_seconds_where_a_share_would_mislead(faulty):
    short = dataclasses.replace(
        faulty, overhead={"seconds": 0.42, "share": 1.58, "total_seconds": 0.7}
    )
    assert "; watching took 0.4 s; trace" in plain(short)
