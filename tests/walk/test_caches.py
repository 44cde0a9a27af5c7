"""Steps inside a region in which another forward follows."""

from __future__ import annotations

import textwrap

import pytest

from tests.programs import model_of

BEGIN = "import torch\n\ndef train(model, optimizer, loader, flag):\n"
REGION = 'with torch.autocast("cuda", dtype=torch.bfloat16):'


def stale(body: str) -> list[tuple[str, bool]]:
    """The text of every stale step of a function with this body, and whether it loops."""
    text = BEGIN + textwrap.indent(textwrap.dedent(body), "    ")
    model = model_of(text)
    return [(model.tree.source(found.step), found.loops) for found in model.caches.stale]


@pytest.mark.parametrize("loop", ["for x in loader:", "while flag:", "for _ in range(3):"])
def test_a_loop_inside_the_region(loop: str) -> None:
    body = f"""
        {REGION}
            {loop}
                model(flag).mean().backward()
                optimizer.step()
    """
    assert stale(body) == [("optimizer.step()", True)]


@pytest.mark.parametrize(
    ("given", "count"),
    [
        ("[latent]", 0),
        ("params=[latent, self.image]", 0),
        ("model.parameters()", 1),
        ("[*model.parameters()]", 1),
        ('[{"params": model.parameters()}]', 1),
        ("[latent, *model.parameters()]", 1),
    ],
)
def test_what_the_optimizer_got(given: str, count: int) -> None:
    body = f"""
        adam = torch.optim.AdamW({given}, lr=0.1)
        {REGION}
            for x in loader:
                model(x + latent).mean().backward()
                adam.step()
    """
    assert len(stale(body)) == count


def test_a_forward_after_the_step() -> None:
    body = f"""
        {REGION}
            model(1).mean().backward()
            optimizer.step()
            model(2).mean().backward()
    """
    assert stale(body) == [("optimizer.step()", False)]


def test_the_outer_region_counts() -> None:
    body = f"""
        with torch.autocast("cuda", enabled=False):
            for x in loader:
                {REGION}
                    loss = model(x).mean()
                loss.backward()
                optimizer.step()
    """
    assert stale(body) == [("optimizer.step()", True)]


@pytest.mark.parametrize(
    "body",
    [
        f"""
        for x in loader:
            {REGION}
                model(x).mean().backward()
                optimizer.step()
        """,
        f"""
        {REGION}
            model(1).mean().backward()
            optimizer.step()
        """,
        f"""
        {REGION}
            for x in loader:
                model(x).mean().backward()
        optimizer.step()
        """,
        f"""
        {REGION}
            if flag:
                model(1).mean().backward()
                optimizer.step()
            else:
                model(2).mean().backward()
        """,
        f"""
        {REGION}
            def closure():
                for x in loader:
                    model(x).mean().backward()
                    optimizer.step()
        """,
        """
        with torch.autocast("cuda", cache_enabled=False):
            for x in loader:
                model(x).mean().backward()
                optimizer.step()
        """,
        """
        with torch.autocast("cuda", enabled=False):
            for x in loader:
                model(x).mean().backward()
                optimizer.step()
        """,
    ],
)
def test_nothing_stale(body: str) -> None:
    assert stale(body) == []


TWO_ARMS = """
    cuda = flag == "cuda"
    with {context}:
        if {test}:
            scaler.scale(model(1).mean()).backward()
            scaler.step(optimizer)
        else:
            model(1).mean().backward()
            optimizer.step()
        if {again}:
            model(2).mean().backward()
"""
CHOSEN = 'torch.autocast("cuda") if cuda else nullcontext()'


@pytest.mark.parametrize(
    ("context", "test", "again", "found"),
    [
        (CHOSEN, "cuda", "flag", ["scaler.step(optimizer)"]),
        ('torch.autocast("cuda", enabled=cuda)', "cuda", "flag", ["scaler.step(optimizer)"]),
        (CHOSEN, "not cuda", "flag", ["optimizer.step()"]),
        (CHOSEN, "cuda", "not cuda", []),
        (CHOSEN, "other", "flag", ["scaler.step(optimizer)", "optimizer.step()"]),
    ],
)
def test_the_region_is_off_in_one_arm(
    context: str, test: str, again: str, found: list[str]
) -> None:
    body = TWO_ARMS.format(context=context, test=test, again=again)
    assert [step for step, _ in stale(body)] == found
