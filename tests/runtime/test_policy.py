"""CUDA's autocast on a CPU, for as long as it is asked for."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from amp_lint.run.choice import ConfigError
from amp_lint.runtime import cli, policy
from amp_lint.runtime.policy import CudaPolicy

HALF, SINGLE = torch.float16, torch.float32
UNLIKE = {
    "exp": (HALF, SINGLE),
    "softmax": (HALF, SINGLE),
    "sum": (HALF, SINGLE),
    "layer_norm": (HALF, SINGLE),
    "matmul": (HALF, HALF),
    "atan2": (SINGLE, SINGLE),
    "mse_loss": (SINGLE, SINGLE),
}
"""The dtype of an operation on the CPU, and under CUDA's lists."""


def dtypes(device: str = "cpu", dtype: torch.dtype | None = HALF) -> dict[str, torch.dtype]:
    x = torch.ones(4, 4)
    with torch.autocast(device, dtype):
        y = x @ x
        made = {
            "exp": y.exp(),
            "softmax": y.softmax(-1),
            "sum": y.sum(),
            "layer_norm": F.layer_norm(y, (4,)),
            "matmul": y,
            "atan2": torch.atan2(y, x),
            "mse_loss": F.mse_loss(y, y),
        }
    return {name: tensor.dtype for name, tensor in made.items()}


def patched() -> list[object]:
    spaces = {
        torch: policy._STATES,
        torch.amp: ("custom_fwd", "custom_bwd"),
        torch.autocast: ("__init__",),
        torch.amp.GradScaler: ("__init__",),
    }
    return [getattr(space, name) for space, names in spaces.items() for name in names]


def registered() -> list[str]:
    return sorted(torch._C._dispatch_get_registrations_for_dispatch_key("AutocastCPU"))


def test_casts_are_those_of_cuda_until_the_end() -> None:
    before, kernels, default = patched(), registered(), torch.get_autocast_dtype("cpu")
    for _ in range(2):  # it can be done again
        assert dtypes() == {name: pair[0] for name, pair in UNLIKE.items()}
        with CudaPolicy():
            assert dtypes() == {name: pair[1] for name, pair in UNLIKE.items()}
            assert dtypes("cuda", None) == dtypes()
    assert dtypes() == {name: pair[0] for name, pair in UNLIKE.items()}
    assert patched() == before and registered() == kernels
    assert torch.get_autocast_dtype("cpu") is default


def test_an_error_undoes_it_too() -> None:
    with pytest.raises(ZeroDivisionError), CudaPolicy():
        raise ZeroDivisionError
    assert dtypes()["exp"] is HALF


def test_probabilities_are_refused_as_on_cuda() -> None:
    x = torch.full((3,), 0.5)
    with CudaPolicy(), torch.autocast("cuda"), pytest.raises(RuntimeError, match="unsafe to auto"):
        F.binary_cross_entropy(x, x)


@pytest.mark.filterwarnings("ignore:`torch.cuda.amp:FutureWarning")
def test_what_is_of_cuda_is_of_the_cpu() -> None:
    with CudaPolicy():
        scalers = [
            torch.amp.GradScaler(),
            torch.amp.GradScaler("cuda"),
            torch.amp.GradScaler(device="cuda", init_scale=8.0),
            torch.cuda.amp.GradScaler(init_scale=8.0),
        ]
        assert all(scaler.is_enabled() for scaler in scalers)
        assert scalers[3].scale(torch.ones(1)).item() == 8.0
        with torch.cuda.amp.autocast():
            assert torch.is_autocast_enabled() and torch.is_autocast_enabled("cuda")
            assert torch.get_autocast_dtype("cuda") is HALF
        with torch.autocast(device_type="cuda", enabled=False):
            assert not torch.is_autocast_enabled()


def test_functions_cast_their_inputs() -> None:
    with CudaPolicy():

        class Same(torch.autograd.Function):
            @staticmethod
            @torch.amp.custom_fwd(device_type="cuda", cast_inputs=SINGLE)  # type: ignore[untyped-decorator]
            def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
                assert not torch.is_autocast_enabled()
                return x.clone()

        with torch.autocast("cuda"):
            assert Same.apply(torch.ones(2, dtype=HALF)).dtype is SINGLE  # type: ignore[no-untyped-call]


SCRIPT = """\
import torch
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
scaler = torch.amp.GradScaler("cuda", init_scale=64.0)
for _ in range(2):
    with torch.autocast("cuda"):
        out = model(torch.randn(3, 4)).softmax(-1)
    print(out.dtype)
    scaler.scale(out.float().square().sum()).backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
"""


def test_a_script_of_cuda_is_watched(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text(SCRIPT, "utf-8")
    command = [sys.executable, "-m", "amp_lint", "run", "--output-format", "concise"]
    ran = subprocess.run(
        [*command, "--policy", "cuda", str(path)], capture_output=True, text=True, check=False
    )
    assert ran.stdout == "torch.float32\n" * 2
    assert "train.py:10:5: AMP101" in ran.stderr
    ran = subprocess.run([*command, str(path)], capture_output=True, text=True, check=False)
    assert ran.stdout == "torch.float32\n" * 2  # nothing is cast without CUDA, and no scaler is on
    assert "The run showed 0 mistakes" in ran.stderr


def test_cuda_has_its_own_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "train.py"
    path.write_text("", "utf-8")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    with pytest.raises(ConfigError, match="there is CUDA here"):
        cli.run(["--policy", "cuda", str(path)])


def test_regions_of_other_threads_are_float16_too() -> None:
    found: list[torch.dtype] = []

    def region() -> None:
        with torch.autocast("cuda"):
            found.append((torch.ones(2, 2) @ torch.ones(2, 2)).dtype)

    with CudaPolicy():
        region()
        thread = threading.Thread(target=region)
        thread.start()
        thread.join()
    assert found == [HALF, HALF]
