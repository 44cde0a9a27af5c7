"""Trainings that run in milliseconds: with one mistake each, and with none."""

from __future__ import annotations

import textwrap

HEAD = """\
import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**10)
data = [(torch.randn(4, 8), torch.randn(4, 1)) for _ in range(4)]


def loss_of(x, y, net=model, dtype=torch.float16):
    with torch.autocast("cpu", dtype):
        return nn.functional.mse_loss(net(x).float(), y)


"""
HERE = "# here"
KEPT_LOSS = """
        scaler = torch.amp.GradScaler("cpu", init_scale=64.0, growth_interval=1)
        for x, y in data:
            optimizer.zero_grad()
            scaled = scaler.scale(loss_of(x, y))
            scaled.backward()
            scaler.step(optimizer)
            scaler.update()
"""
PLANTED = {
    "AMP101 of rare words": """
        words = nn.Embedding(1000, 8)
        both = torch.optim.SGD([*model.parameters(), *words.parameters()], 1e-3)
        for x, y in data:
            both.zero_grad()
            scaler.scale(loss_of(x + words(torch.tensor([3, 5, 7, 9])), y)).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # here
            scaler.step(both)
            scaler.update()
    """,
    "AMP101 for the first time late": """
        for n in range(70):
            optimizer.zero_grad()
            scaler.scale(loss_of(*data[0])).backward()
            if n > 60:
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # here
            scaler.step(optimizer)
            scaler.update()
    """,
    "AMP104 in a hook": """
        one = torch.optim.SGD([model[2].weight], 1e-3)
        model[2].weight.register_post_accumulate_grad_hook(lambda p: one.step())  # here
        for x, y in data:
            model.zero_grad()
            scaler.scale(loss_of(x, y)).backward()
    """,
    "AMP104 closure": """
        search = torch.optim.LBFGS(model.parameters(), max_iter=2)

        def closure():
            search.zero_grad()
            loss = loss_of(x, y)
            scaler.scale(loss).backward()
            return loss

        for x, y in data:
            search.step(closure)  # here
    """,
    "AMP105 given up": """
        for x, y in data:
            optimizer.zero_grad()
            scaler.scale(loss_of(x, y)).backward()
            try:
                scaler.unscale_(optimizer)  # here
            except RuntimeError:
                break
            if float(nn.utils.clip_grad_norm_(model.parameters(), 1.0)) >= 0:
                continue
    """,
    "AMP106 between two steps": """
        halves = [torch.optim.SGD(part.parameters(), 1e-3) for part in (model[0], model[2])]
        for x, y in data:
            model.zero_grad()
            scaler.scale(loss_of(x, y)).backward()
            for half in halves:
                scaler.step(half)
                scaler.update()  # here
    """,
    "AMP208 decorated": """
        @torch.autocast("cpu", torch.bfloat16)  # here
        def outputs():
            for x, y in data:
                yield nn.functional.mse_loss(model(x), y)

        for loss in outputs():
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    """,
    "AMP605 second run": """
        import io

        def train(scaler, optimizer):
            for x, y in data:
                optimizer.zero_grad()
                scaler.scale(loss_of(x, y)).backward()
                scaler.step(optimizer)
                scaler.update()

        def parts():
            made = torch.optim.SGD(model.parameters(), 1e-3, momentum=0.9)
            return torch.amp.GradScaler("cpu", init_scale=64.0), made

        first, second, file = parts(), parts(), io.BytesIO()
        train(*first)
        states = {"scaler": first[0].state_dict(), "optimizer": first[1].state_dict()}
        torch.save(states, file)
        file.seek(0)
        second[1].load_state_dict(torch.load(file)["optimizer"])  # here
        train(*second)
    """,
    "AMP101": """
        def clip(parameters):
            nn.utils.clip_grad_norm_(parameters, 1.0)  # here

        for x, y in data:
            optimizer.zero_grad()
            scaler.scale(loss_of(x, y)).backward()
            clip(model.parameters())
            scaler.step(optimizer)
            scaler.update()
    """,
    "AMP101 value": """
        from torch.nn.utils import clip_grad_value_
        for x, y in data:
            optimizer.zero_grad()
            scaler.scale(loss_of(x, y)).backward()
            clip_grad_value_(model.parameters(), clip_value=0.5)  # here
            scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
    """,
    "AMP101 norm": """
        for x, y in data:
            model.zero_grad()
            scaler.scale(loss_of(x, y)).backward()
            print(nn.utils.get_total_norm([p.grad for p in model.parameters()]))  # here
            scaler.step(optimizer)
            scaler.update()
    """,
    "AMP102": """
        def norm(parameters):
            total = 0.0
            for parameter in parameters:
                total += parameter.grad.detach().data.norm(2).item() ** 2  # here
            return total ** 0.5

        for x, y in data:
            optimizer.zero_grad()
            scaler.scale(loss_of(x, y)).backward()
            norm(model.parameters())
            scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
    """,
    "AMP102 list": """
        for x, y in data:
            optimizer.zero_grad()
            scaler.scale(loss_of(x, y)).backward()
            gradients = [parameter.grad.flatten() for parameter in model[2].parameters()]
            print((torch.cat(gradients) * torch.cat(gradients)).sum())  # here
            scaler.step(optimizer)
            scaler.update()
    """,
    "AMP102 clip by hand": """
        torch.set_default_device("cpu")
        for x, y in data:
            optimizer.zero_grad()
            scaler.scale(loss_of(x, y)).backward()
            for parameter in model.parameters():
                norm = torch.linalg.vector_norm(parameter.grad)  # here
                parameter.grad.data.mul_((10 / (norm + 1e-6)).clamp(max=1.0))
            scaler.step(optimizer)
            scaler.update()
        torch.set_default_device(None)
    """,
    "AMP102 values": """
        with torch.device("cpu"):
            for x, y in data:
                optimizer.zero_grad()
                scaler.scale(loss_of(x, y)).backward()
                for parameter in model.parameters():
                    parameter.grad.data.clamp_(-0.1, 0.1)  # here
                scaler.step(optimizer)
                scaler.update()
    """,
    "AMP103": """
        for x, y in data:
            optimizer.zero_grad()
            for half in (x[:2], x[2:]):
                scaler.scale(loss_of(half, y[:2])).backward()
                try:
                    scaler.unscale_(optimizer)  # here
                except RuntimeError:
                    pass
            scaler.step(optimizer)
            scaler.update()
    """,
    "AMP103 silent": """
        for x, y in data:
            optimizer.zero_grad()
            scaler.scale(loss_of(x, y)).backward()
            scaler.unscale_(optimizer)  # here
            scaler.scale(loss_of(x, y)).backward()
            scaler.step(optimizer)
            scaler.update()
    """,
    "AMP104": """
        for x, y in data:
            optimizer.zero_grad()
            scaler.scale(loss_of(x, y)).backward()
            optimizer.step()  # here
    """,
    "AMP104 on inf": """
        data[2] = (data[2][0] * float("inf"), data[2][1])
        for x, y in data:
            optimizer.zero_grad()
            scaler.scale(loss_of(x, y)).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()  # here
            scaler.update()
    """,
    "AMP104 twice": """
        for x, y in data:
            optimizer.zero_grad()
            scaler.scale(loss_of(x, y)).backward()
            scaler.step(optimizer)
            optimizer.step()  # here
            scaler.update()
    """,
    "AMP104 after update": """
        for x, y in data:
            optimizer.zero_grad()
            scaler.scale(loss_of(x, y)).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.step()  # here
    """,
    "AMP105": """
        for x, y in data:
            optimizer.zero_grad()
            scaler.scale(loss_of(x, y)).backward()
            try:
                scaler.step(optimizer)  # here
            except RuntimeError:
                pass
    """,
    "AMP105 once": """
        x, y = data[0]
        scaler.scale(loss_of(x, y)).backward()
        scaler.step(optimizer)  # here
    """,
    "AMP106": """
        for x, y in data:
            optimizer.zero_grad()
            scaler.scale(loss_of(x, y)).backward()
            scaler.unscale_(optimizer)
            scaler.update()  # here
            scaler.step(optimizer)
            scaler.update()
    """,
    "AMP107": """
        scaler.scale(torch.ones(()))
        for x, y in data:
            optimizer.zero_grad()
            loss_of(x, y).backward()  # here
            scaler.step(optimizer)
            scaler.update()
    """,
    "AMP107 that raises": """
        for x, y in data:
            optimizer.zero_grad()
            loss_of(x, y).backward()  # here
            try:
                scaler.unscale_(optimizer)
            except AssertionError:
                break
    """,
    "AMP108": """
        def epoch():
            scaler = torch.amp.GradScaler("cpu")  # here
            for x, y in data:
                optimizer.zero_grad()
                scaler.scale(loss_of(x, y)).backward()
                scaler.step(optimizer)
                scaler.update()

        epoch()
        epoch()
    """,
    "AMP109": """
        scaler = torch.amp.GradScaler("cpu")  # here
        for x, y in data:
            optimizer.zero_grad()
            scaler.scale(loss_of(x, y, dtype=torch.bfloat16)).backward()
            scaler.step(optimizer)
            scaler.update()
    """,
    "AMP110": """
        def train(dtype):
            for x, y in data:
                optimizer.zero_grad()
                with torch.autocast("cpu", dtype):  # here
                    loss = model(x).float().sum()
                loss.backward()
                optimizer.step()

        train(torch.float16)
    """,
    "AMP111": """
        import io

        def keep(**states):
            torch.save(states, io.BytesIO())  # here

        for x, y in data:
            optimizer.zero_grad()
            scaler.scale(loss_of(x, y)).backward()
            scaler.step(optimizer)
            scaler.update()
        keep(model=model.state_dict(), optimizer=optimizer.state_dict())
    """,
    "AMP112": """
        scheduler = LambdaLR(optimizer, lambda step: 1.0)
        data[1] = (data[1][0] * float("inf"), data[1][1])
        for x, y in data:
            optimizer.zero_grad()
            scaler.scale(loss_of(x, y)).backward()
            scaler.step(optimizer)
            scheduler.step()  # here
            scaler.update()
    """,
    "AMP113": """
        for x, y in data:
            optimizer.zero_grad()
            scaler.scale(loss_of(x, y)).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)  # here
            scaler.step(optimizer)
            scaler.update()
    """,
    "AMP114": """
        other = torch.amp.GradScaler("cpu")
        other.scale(torch.ones(()))
        for x, y in data:
            optimizer.zero_grad()
            scaler.scale(loss_of(x, y)).backward()
            other.step(optimizer)  # here
            other.update()
    """,
    "AMP116 of tensors": KEPT_LOSS
    + """\
            optimizer.zero_grad()
            kept = scaled.detach().cpu() / scaler.get_scale()  # here
    """,
    "AMP116 of a log now and then": """
        scaler = torch.amp.GradScaler("cpu", init_scale=64.0, growth_interval=50)
        for n in range(200):
            optimizer.zero_grad()
            scaled = scaler.scale(loss_of(*data[0]))
            scaled.backward()
            scaler.step(optimizer)
            scaler.update()
            if n % 50 == 49:
                kept = scaled.detach() / scaler.get_scale()  # here
    """,
    "AMP116 of numbers": KEPT_LOSS
    + """\
            value = float(scaled)
            scale = scaler.get_scale()
            kept = [value / scale]  # here
    """,
    "AMP201": """
        for x, y in data:
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.float16):
                loss = model(x).float().sum()
                scaler.scale(loss).backward()  # here
            scaler.step(optimizer)
            scaler.update()
    """,
    "AMP202": """
        def finish():
            scaler.step(optimizer)  # here
            scaler.update()

        with torch.autocast("cpu", torch.float16):
            for x, y in data:
                optimizer.zero_grad()
                loss = model(x).float().sum()
                with torch.autocast("cpu", enabled=False):
                    scaler.scale(loss).backward()
                finish()
    """,
    "AMP202 whose region ends before the backward": """
        head = nn.Linear(8, 8)
        both = torch.optim.SGD(head.parameters(), 1e-3)
        for x, y in data:
            with torch.autocast("cpu", torch.bfloat16):
                loss = model(head(x).detach()).float().sum()
                with torch.autocast("cpu", enabled=False):
                    loss.backward()
                optimizer.step()  # here
                loss = model(head(x)).float().sum()
            loss.backward()
            both.step()
    """,
    "AMP203": """
        dtype = getattr(torch, "float16")
        half = model.to(dtype=dtype)
        for x, y in data:
            optimizer.zero_grad()
            half(x.to(dtype)).float().sum().backward()
            optimizer.step()  # here
    """,
    "AMP206": """
        scaler = torch.amp.GradScaler("cpu", True)  # here
    """,
    "AMP206 dtype": """
        for x, y in data:
            try:
                with torch.autocast("cpu", torch.bfloat16, torch.float16):  # here
                    model(x)
            except TypeError:
                pass
    """,
    "AMP207": """
        def amp():
            return torch.autocast("cpu", torch.bfloat16)  # here

        for x, y in data:
            optimizer.zero_grad()
            amp()
            model(x).sum().backward()
            optimizer.step()
    """,
    "AMP207 kept": """
        amp = torch.autocast("cpu", torch.bfloat16)  # here
        for x, y in data:
            optimizer.zero_grad()
            amp
            model(x).sum().backward()
            optimizer.step()
    """,
    "AMP208": """
        def batches():
            with torch.autocast("cpu", torch.bfloat16):  # here
                for x, y in data:
                    yield x

        found = batches()
        next(found)
        with torch.autocast("cpu", torch.bfloat16):
            found.close()
    """,
    "AMP209": """
        region = torch.autocast("cpu", torch.bfloat16)
        with region:
            with region:  # here
                model(data[0][0])
    """,
    "AMP602": """
        for x, y in data * 4:
            optimizer.zero_grad()
            scaler.scale(loss_of(x, y) * float("inf")).backward()
            scaler.step(optimizer)  # here
            scaler.update()
    """,
    "AMP602 now and then": """
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
        for number in range(200):
            optimizer.zero_grad()
            loss = loss_of(*data[0]) * (float("nan") if number % 40 == 7 else 1)
            scaler.scale(loss).backward()
            scaler.step(optimizer)  # here
            scaler.update()
    """,
    "AMP104 where the scaler has skipped": """
        for x, y in data:
            optimizer.zero_grad()
            scaler.scale(loss_of(x, y) * (float("inf") if x is data[1][0] else 1)).backward()
            scaler.step(optimizer)
            if x is data[1][0]:
                optimizer.step()  # here
            scaler.update()
    """,
    "AMP605": """
        import io

        states = {"optimizer": optimizer.state_dict(), "scaler": scaler.state_dict()}
        states["optimizer"]["state"] = {0: {"momentum_buffer": torch.zeros(16, 8)}}
        file = io.BytesIO()
        torch.save(states, file)
        file.seek(0)
        loaded = torch.load(file)
        optimizer.load_state_dict(loaded["optimizer"])  # here
        for x, y in data:
            optimizer.zero_grad()
            scaler.scale(loss_of(x, y)).backward()
            scaler.step(optimizer)
            scaler.update()
    """,
}
"""Code, with a word where it has several programs -> a training in which `# here` is found."""
CLEAN = {
    "a scaled loss that is gone, whose memory others get": KEPT_LOSS
    + """\
            del scaled
            others = [torch.ones(()) / scaler.get_scale() for _ in range(50)]
    """,
    "a scaled loss beside the new scale, and divided by the old one": """
        scale = 1.0
        scaler = torch.amp.GradScaler("cpu", init_scale=64.0, growth_interval=1)
        for x, y in data:
            optimizer.zero_grad()
            scaled = scaler.scale(loss_of(x, y))
            scaled.backward()
            scale = scaler.get_scale()
            scaler.step(optimizer)
            scaler.update()
            kept = scaled.item() / scale, scaled / scale
            print(scaled.item(), scaler.get_scale(), y.mean() / scaler.get_scale())
            print(scaled.item() / len(data) + scaler.get_scale() / 2)
    """,
    "a scaled loss divided by a scale that stays the same": """
        scaler = torch.amp.GradScaler("cpu", init_scale=64.0)
        for x, y in data:
            optimizer.zero_grad()
            scaled = scaler.scale(loss_of(x, y))
            scaled.backward()
            scaler.step(optimizer)
            scaler.update()
            kept = scaled.item() / scaler.get_scale(), scaled / scaler.get_scale()
    """,
    "a loss from before the step, whose region ends before its backward": """
        with torch.autocast("cpu", torch.bfloat16):
            first = model(data[0][0]).float().sum()
            second = model(data[1][0]).float().sum()
            with torch.autocast("cpu", enabled=False):
                first.backward()
            optimizer.step()
        second.backward()
        optimizer.step()
    """,
    "a region for evaluation that is kept, and not reached": """
        quick = torch.autocast("cpu", torch.bfloat16)
        for x, y in data:
            optimizer.zero_grad()
            scaler.scale(loss_of(x, y)).backward()
            scaler.step(optimizer)
            scaler.update()
        if not data:
            with quick:
                model(data[0][0])
    """,
    "a step that looks for inf itself": """
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**17)
        for x, y in data:
            optimizer.zero_grad()
            scaler.scale(loss_of(x, y)).backward()
            scaler.unscale_(optimizer)
            if torch.isfinite(nn.utils.clip_grad_norm_(model.parameters(), 1.0)):
                optimizer.step()
            scaler.update()
    """,
    "inf that is replaced before the step": """
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**17)
        for x, y in data:
            optimizer.zero_grad()
            scaler.scale(loss_of(x, y)).backward()
            scaler.unscale_(optimizer)
            for p in model.parameters():
                p.grad.nan_to_num_(0.0, 0.0, 0.0)
            optimizer.step()
            scaler.update()
    """,
    "another optimizer steps in a hook": """
        other = nn.Linear(8, 1)
        one = torch.optim.SGD(other.parameters(), 1e-3)
        model[2].weight.register_post_accumulate_grad_hook(lambda p: one.step())
        for x, y in data:
            one.zero_grad()
            nn.functional.mse_loss(other(x), y).backward()
            optimizer.zero_grad()
            scaler.scale(loss_of(x, y)).backward()
            scaler.step(optimizer)
            scaler.update()
    """,
    "a hook that divides": """
        one = torch.optim.SGD([model[2].weight], 1e-3)

        def divided(p):
            p.grad.div_(scaler.get_scale())
            one.step()

        model[2].weight.register_post_accumulate_grad_hook(divided)
        rest = torch.optim.SGD(model[0].parameters(), 1e-3)
        for x, y in data:
            model.zero_grad()
            scaler.scale(loss_of(x, y)).backward()
            scaler.step(rest)
            scaler.update()
    """,
    "a closure that unscales": """
        def closure():
            optimizer.zero_grad()
            loss = loss_of(x, y)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            return loss

        for x, y in data:
            optimizer.step(closure)
            scaler.update()
    """,
    "an update after each of two backwards": """
        halves = [torch.optim.SGD(part.parameters(), 1e-3) for part in (model[0], model[2])]
        for x, y in data:
            for half in halves:
                half.zero_grad()
                scaler.scale(loss_of(x, y)).backward()
                scaler.step(half)
                scaler.update()
    """,
    "a context manager with a region": """
        import contextlib

        @contextlib.contextmanager
        def mixed():
            with torch.autocast("cpu", torch.float16):
                yield

        for x, y in data:
            optimizer.zero_grad()
            with mixed():
                out = model(x)
            scaler.scale(nn.functional.mse_loss(out.float(), y)).backward()
            scaler.step(optimizer)
            scaler.update()
    """,
    "an optimizer that is put back": """
        import copy

        for x, y in data:
            optimizer.zero_grad()
            scaler.scale(loss_of(x, y)).backward()
            scaler.step(optimizer)
            scaler.update()
            optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    """,
    "clip": """
        for x, y in data:
            optimizer.zero_grad()
            scaler.scale(loss_of(x, y)).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
    """,
    "accumulation": """
        for step, (x, y) in enumerate(data * 2):
            (scaler.scale(loss_of(x, y)) / 4).backward()
            if step % 4 == 3:
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
    """,
    "gan with one scaler": """
        critic = nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 1))
        maker = nn.Linear(3, 8)
        of_critic = torch.optim.Adam(critic.parameters(), betas=(0.5, 0.999))
        of_maker = torch.optim.Adam(maker.parameters())
        for x, y in data * 2:
            made = maker(torch.randn(4, 3))
            of_critic.zero_grad()
            scaler.scale(loss_of(x, y, critic) + loss_of(made.detach(), -y, critic)).backward()
            scaler.step(of_critic)
            of_maker.zero_grad()
            scaler.scale(loss_of(made, y, critic)).backward()
            scaler.step(of_maker)
            scaler.update()
    """,
    "gan with two scalers": """
        def scaler_of():
            return torch.amp.GradScaler("cpu", init_scale=2.0**10)

        critic, maker = nn.Linear(8, 1), nn.Linear(3, 8)
        of_critic = torch.optim.Adam(critic.parameters())
        of_maker = torch.optim.Adam(maker.parameters())
        first, second = scaler_of(), scaler_of()
        for x, y in data * 2:
            made = maker(torch.randn(4, 3))
            of_critic.zero_grad(set_to_none=False)
            first.scale(loss_of(x, y, critic) + loss_of(made.detach(), -y, critic)).backward()
            first.step(of_critic)
            first.update()
            of_maker.zero_grad(set_to_none=False)
            second.scale(loss_of(made, y, critic)).backward()
            second.step(of_maker)
            second.update()
    """,
    "two optimizers of one loss": """
        last = model[2].parameters()
        parts = [torch.optim.AdamW(model[0].parameters()), torch.optim.SGD(last, 0.1)]
        for x, y in data:
            for part in parts:
                part.zero_grad()
            scaler.scale(loss_of(x, y)).backward()
            for part in parts:
                scaler.unscale_(part)
            nn.utils.clip_grad_value_(model.parameters(), 0.5)
            for part in parts:
                scaler.step(part)
            scaler.update()
    """,
    "lbfgs": """
        optimizer = torch.optim.LBFGS(model.parameters(), max_iter=3)
        for x, y in data:
            def closure():
                optimizer.zero_grad()
                loss = nn.functional.mse_loss(model(x), y)
                loss.backward()
                return loss
            optimizer.step(closure)
    """,
    "moving average, schedule, evaluation": """
        average = torch.optim.swa_utils.AveragedModel(model)
        scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=8)
        for epoch in range(2):
            for x, y in data:
                optimizer.zero_grad()
                scaler.scale(loss_of(x, y)).backward()
                before = scaler.get_scale()
                scaler.step(optimizer)
                scaler.update()
                if scaler.get_scale() >= before:
                    scheduler.step()
                average.update_parameters(model)
            with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
                average(x)
    """,
    "overflow at first": """
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**20)
        scheduler = LambdaLR(optimizer, lambda step: 1.0)
        for x, y in data * 3:
            optimizer.zero_grad()
            scaler.scale(loss_of(x, y * 100)).backward()
            scaler.step(optimizer)
            scaler.update()
            scheduler.step()
    """,
    "skipped batches": """
        for step, (x, y) in enumerate(data * 2):
            optimizer.zero_grad()
            loss = loss_of(x, y)
            scaler.scale(loss).backward()
            if step % 3 == 1:
                continue
            scaler.step(optimizer)
            scaler.update()
    """,
    "flag off": """
        scaler = torch.amp.GradScaler("cpu", enabled=False)
        for x, y in data:
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.float16, enabled=False):
                loss = nn.functional.mse_loss(model(x), y)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)
            scaler.step(optimizer)
            scaler.update()
    """,
    "limit times scale": """
        for x, y in data:
            optimizer.zero_grad()
            scaler.scale(loss_of(x, y)).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0 * scaler.get_scale())
            scaler.step(optimizer)
            scaler.update()
    """,
    "limit times an earlier scale": """
        for x, y in data:
            limit = 1.0 * scaler.get_scale()
            optimizer.zero_grad()
            scaler.scale(loss_of(x, y)).backward()
            nn.utils.clip_grad_norm_(model.parameters(), limit)
            scaler.step(optimizer)
            scaler.update()
    """,
    "unscaled by hand": """
        for x, y in data:
            optimizer.zero_grad()
            scaler.scale(loss_of(x, y)).backward()
            for p in model.parameters():
                p.grad.div_(2.0**10)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
    """,
    "unscaled by hand behind torch's back": """
        for x, y in data:
            optimizer.zero_grad()
            scaler.scale(loss_of(x, y)).backward()
            for parameter in model.parameters():
                parameter.grad.data.div_(2.0**10)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
    """,
    "unscaled by hand in a list, after a look": """
        for x, y in data:
            optimizer.zero_grad()
            scaler.scale(loss_of(x, y)).backward()
            gradients = [parameter.grad.data for parameter in model.parameters()]
            norms = torch._foreach_norm(gradients)
            torch._foreach_mul_(gradients, 1 / 2.0**10)
            optimizer.step()
    """,
    "the scale is taken from the scaler": """
        for x, y in data:
            optimizer.zero_grad()
            scaler.scale(loss_of(x, y)).backward()
            norm = sum(parameter.grad.norm() for parameter in model.parameters())
            print(norm / scaler._scale)
            scaler.step(optimizer)
            scaler.update()
    """,
    "looks at the right time": """
        for x, y in data:
            optimizer.zero_grad()
            scaler.scale(loss_of(x, y)).backward()
            print([parameter.grad.isfinite().all() for parameter in model.parameters()])
            scaler.unscale_(optimizer)
            print([parameter.grad.norm() for parameter in model.parameters()])
            scaler.step(optimizer)
            scaler.update()
            print([parameter.grad.norm() for parameter in model.parameters()])
    """,
    "unscaled, then stepped directly": """
        for x, y in data:
            optimizer.zero_grad()
            scaler.scale(loss_of(x, y)).backward()
            scaler.unscale_(optimizer)
            optimizer.step()
            scaler.update()
    """,
    "no scaler in bfloat16": """
        region = torch.autocast("cpu", torch.bfloat16)
        for x, y in data:
            for p in model.parameters():
                p.grad = None
            with region:
                loss = nn.functional.mse_loss(model(x).float(), y)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0, error_if_nonfinite=True)
            optimizer.step()
    """,
    "float16 teacher": """
        teacher = nn.Linear(8, 1)
        for x, y in data:
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.float16), torch.no_grad():
                wanted = teacher(x).float()
            nn.functional.mse_loss(model(x), wanted).backward()
            optimizer.step()
    """,
    "own loss scale": """
        for x, y in data:
            optimizer.zero_grad()
            (loss_of(x, y) * 128).backward()
            for p in model.parameters():
                p.grad.mul_(1 / 128)
            optimizer.step()
    """,
    "float32 under a float16 region": """
        with torch.autocast("cpu", torch.float16):
            with torch.autocast("cpu", enabled=False):
                for x, y in data:
                    optimizer.zero_grad()
                    nn.functional.mse_loss(model(x), y).backward()
                    optimizer.step()
    """,
    "nested regions, decorated forward": """
        @torch.autocast("cpu", torch.float16)
        def forward(x, y):
            out = model(x)
            with torch.autocast("cpu", enabled=False):
                return nn.functional.mse_loss(out.float(), y)

        for x, y in data:
            optimizer.zero_grad()
            scaler.scale(forward(x, y)).backward()
            scaler.step(optimizer)
            scaler.update()
    """,
    "checkpointing": """
        from torch.utils.checkpoint import checkpoint

        for reentrant in (True, False):
            for x, y in data:
                optimizer.zero_grad()
                with torch.autocast("cpu", torch.float16):
                    hidden = model[0](x.requires_grad_())
                    out = checkpoint(model[2], model[1](hidden), use_reentrant=reentrant)
                    loss = nn.functional.mse_loss(out.float(), y)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
    """,
    "states kept together or apart": """
        import io

        for x, y in data:
            optimizer.zero_grad()
            scaler.scale(loss_of(x, y)).backward()
            scaler.step(optimizer)
            scaler.update()
        states = {"training": {"optimizer": optimizer.state_dict(), "scaler": scaler.state_dict()}}
        torch.save(states, io.BytesIO())
        torch.save(optimizer.state_dict(), io.BytesIO())
        torch.save(scaler.state_dict(), io.BytesIO())
        torch.save(model.half().state_dict(), io.BytesIO())
    """,
    "resumed": """
        import io

        file = io.BytesIO()
        states = {"optimizer": optimizer.state_dict(), "scaler": scaler.state_dict()}
        states["optimizer"]["state"] = {0: {"momentum_buffer": torch.zeros(16, 8)}}
        torch.save(states, file)
        file.seek(0)
        loaded = torch.load(file)
        optimizer.load_state_dict(loaded["optimizer"])
        scaler.load_state_dict(loaded["scaler"])
        for x, y in data:
            optimizer.zero_grad()
            scaler.scale(loss_of(x, y)).backward()
            scaler.step(optimizer)
            scaler.update()
    """,
    "fused": """
        optimizer = torch.optim.AdamW(model.parameters(), fused=True)
        for x, y in data:
            optimizer.zero_grad()
            scaler.scale(loss_of(x * 1e4, y)).backward()
            scaler.step(optimizer)
            scaler.update()
    """,
    "gradients that are assigned": """
        for x, y in data:
            loss = scaler.scale(loss_of(x, y))
            grads = torch.autograd.grad(loss, model.parameters())
            for p, grad in zip(model.parameters(), grads):
                p.grad = grad / scaler.get_scale()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
    """,
    "gradient penalty": """
        for x, y in data:
            optimizer.zero_grad()
            loss = loss_of(x.requires_grad_(), y)
            scaled = torch.autograd.grad(scaler.scale(loss), x, create_graph=True)[0]
            loss = loss + (scaled / scaler.get_scale()).norm()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
    """,
    "frozen half model with an adapter": """
        model.half().requires_grad_(False)
        adapter = nn.Linear(1, 1)
        optimizer = torch.optim.AdamW([*model.parameters(), *adapter.parameters()])
        for x, y in data:
            optimizer.zero_grad()
            adapter(model(x.half()).float()).sum().backward()
            optimizer.step()
    """,
    "regions that nobody needed": """
        def available(name):
            try:
                torch.autocast(name)
            except RuntimeError:
                return False
            return True

        usable = [available("cpu") for _ in range(3)]
        for x, y in data:
            region = torch.autocast("cpu", torch.bfloat16)
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()
    """,
}
"""Trainings in which nothing is wrong."""


def program(body: str) -> str:
    """The text of a program."""
    return HEAD + textwrap.dedent(body).lstrip("\n")
