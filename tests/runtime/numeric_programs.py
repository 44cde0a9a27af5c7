"""Trainings whose numbers go wrong in one place, and trainings whose numbers only look as if."""

from __future__ import annotations

PLANTED = {
    "AMP301 picked": """
        for x, y in data:
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.float16):
                scores = model[0](x)
            chosen = scores.float().softmax(-1).gather(1, torch.zeros(4, 1, dtype=torch.long))
            scaler.scale(-chosen.log().mean()).backward()  # here
            scaler.step(optimizer)
            scaler.update()
    """,
    "AMP317 hidden by a root": """
        def norm(h):
            mean = (h * h).mean(-1, keepdim=True)  # here
            return h * torch.rsqrt(mean + 1e-6)

        for x, y in data:
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.float16):
                out = model[2](torch.cat([norm(model[0](x * 2000).detach())[:1] * 0, model[0](x)]))
            scaler.scale(out.float().square().mean()).backward()
            scaler.step(optimizer)
            scaler.update()
    """,
    "AMP601 square": """
        def features(x):
            with torch.autocast("cpu", torch.float16):
                h = model[0](x) * 100
                return h * h * h  # here

        for x, y in data:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model[2](features(x).float()), y)
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
    """,
    "AMP601 root of zero": """
        for x, y in data:
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                out = model(x)
            distance = torch.sqrt((out - out.detach()).float().pow(2).sum())  # here
            (distance + out.float().sum()).backward()
            optimizer.step()
    """,
    "AMP601 in the data": """
        data[1][0][2, 3] = float("nan")
        for x, y in data:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(x), y)  # here
            loss.backward()
            optimizer.step()
    """,
    "AMP601 backward at any scale": """
        class Loud(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.clone()

            @staticmethod
            def backward(ctx, grad):
                return grad * 1e30 * 1e30  # here

        for x, y in data * 6:
            optimizer.zero_grad()
            scaler.scale(Loud.apply(model(x)).mean()).backward()
            scaler.step(optimizer)  # too: AMP602
            scaler.update()
    """,
    "AMP601 stopped": """
        try:
            for x, y in data:
                optimizer.zero_grad()
                out = model(x)
                loss = torch.log(out - out.detach() - 1).mean()  # here
                if not torch.isfinite(loss):
                    raise FloatingPointError("loss is nan")
                loss.backward()
                optimizer.step()
        finally:
            pass
    """,
    "AMP601 late": """
        for step, (x, y) in enumerate(data * 5):
            optimizer.zero_grad()
            out = model(x) * (0 if step == 16 else 1)
            loss = (out / out.detach()).mean()
            loss.backward()  # here
            optimizer.step()
    """,
    "AMP603": """
        for x, y in data:
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.float16):
                out = model(x * 1e6)  # here
            scaler.scale(out.float().clamp(-1, 1).mean()).backward()
            scaler.step(optimizer)
            scaler.update()
    """,
    "AMP603 loss": """
        scaler = torch.amp.GradScaler("cpu")
        for x, y in data:
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.float16):
                loss = model(x).abs().sum() + 100
            scaler.scale(loss).backward()  # here
            scaler.step(optimizer)
            scaler.update()
    """,
    "AMP604": """
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
        for x, y in data:
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.float16):
                out = model[2](torch.relu(model[0](x)))  # here
            scaler.scale((out.float() * torch.rand(4, 1) * 1e-7).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
    """,
    "AMP606": """
        model.bfloat16()
        optimizer = torch.optim.AdamW(model.parameters(), 1e-5)
        for x, y in data:
            optimizer.zero_grad()
            model(x.bfloat16()).float().sum().backward()
            optimizer.step()  # here
    """,
    "AMP104 in a step that is looked at": """
        small = torch.amp.GradScaler("cpu", init_scale=2.0)
        for x, y in data:
            optimizer.zero_grad()
            small.scale(loss_of(x, y)).backward()
            optimizer.step()  # here
    """,
    "AMP316 by a product and a sum": """
        mean = [p.detach().clone().bfloat16() * 0 for p in model.parameters()]
        for x, y in data:
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()
            with torch.no_grad():
                for one, p in zip(mean, model.parameters()):
                    one.fill_(1).mul_(0.9995).add_(p, alpha=0.0005)  # here
    """,
    "AMP316 of a list": """
        with torch.no_grad():
            mean = [torch.ones_like(p, dtype=torch.float16) for p in model.parameters()]
            new = [torch.zeros_like(each) for each in mean]
        for x, y in data:
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()
            torch._foreach_lerp_(mean, new, 0.0001)  # here
    """,
    "AMP301": """
        for x, y in data:
            optimizer.zero_grad()
            p = torch.softmax(model[0](x), 1)
            loss = -torch.log(p)[:, 0].mean()  # here
            loss.backward()
            optimizer.step()
    """,
    "AMP311": """
        norm = nn.LayerNorm(16, eps=1e-8).half()
        for x, y in data:
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.float16):
                hidden = norm(model[0](x))  # here
            scaler.scale(hidden.float().sum()).backward()
            scaler.step(optimizer)
            scaler.update()
    """,
    "AMP312": """
        for x, y in data:
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.float16):
                h = model[0](x)
                h = h / (h.abs().amax(1, keepdim=True) + 1e-8)  # here
            scaler.scale(h.float().sum()).backward()
            scaler.step(optimizer)
            scaler.update()
    """,
    "AMP313": """
        mask = torch.ones(4, 16).tril()
        for x, y in data:
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.float16):
                scores = model[0](x) + (1 - mask).half() * -1e9  # here
            scaler.scale(torch.softmax(scores.float(), 1)[:, 0].sum()).backward()
            scaler.step(optimizer)
            scaler.update()
    """,
    "AMP315": """
        for x, y in data:
            optimizer.zero_grad()
            positions = torch.arange(300).to(torch.bfloat16)  # here
            loss = model(x).sum() * positions.float().mean()
            loss.backward()
            optimizer.step()
    """,
    "AMP318": """
        for x, y in data:
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.float16):
                logits = model[0](x)
            loss = nn.functional.cross_entropy(logits, torch.zeros(4, dtype=torch.long))  # here
            scaler.scale(loss.float()).backward()
            scaler.step(optimizer)
            scaler.update()
    """,
}
"""As `PLANTED` of the other programs."""
CLEAN = {
    "squares that fit": """
        for x, y in data:
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.float16):
                h = model[0](x)
                out = model[2](h * torch.rsqrt((h * h).mean(-1, keepdim=True) + 1e-6))
            scaler.scale(nn.functional.mse_loss(out.float(), y)).backward()
            scaler.step(optimizer)
            scaler.update()
    """,
    "masks": """
        hidden = torch.ones(4, 4).triu(1).bool()
        hidden[3] = True
        for x, y in data:
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.float16):
                h = model[0](x)
                scores = (h @ h.T).masked_fill(hidden, float("-inf"))
                weights = torch.softmax(scores, -1).nan_to_num(0.0)
                causal = torch.full((4, 4), -torch.inf).triu(2)
                weights = weights + torch.softmax(scores + causal, 1)[0]
                out = model[2](weights @ h)
            scaler.scale(nn.functional.mse_loss(out.float(), y)).backward()
            scaler.step(optimizer)
            scaler.update()
    """,
    "averages in low precision that follow": """
        fast = [p.detach().bfloat16() + 1 for p in model.parameters()]
        there = [p.detach().half() for p in model.parameters()]
        single = [torch.zeros_like(p) for p in model.parameters()]
        for x, y in data:
            optimizer.zero_grad()
            model(x).sum().backward()
            optimizer.step()
            with torch.no_grad():
                for one, p in zip(fast, model.parameters()):
                    one.mul_(0.9).add_(p, alpha=0.1)
                torch._foreach_lerp_(there, [each.clone() for each in there], 0.0001)
                torch._foreach_lerp_(single, [p.detach() for p in model.parameters()], 0.0001)
    """,
    "uninitialised": """
        for x, y in data:
            optimizer.zero_grad()
            buffer = torch.empty(4, 16).fill_(float("nan"))
            rows = torch.empty_like(buffer)
            rows[:2] = model[0](x)[:2]
            scaler.scale(loss_of(x, y)).backward()
            scaler.step(optimizer)
            scaler.update()
    """,
    "statistics of a batch, best so far": """
        best, seen = float("inf"), torch.full((), float("inf"))
        for x, y in data:
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                out = nn.functional.dropout(model(x), 0.1)
            loss = nn.functional.mse_loss(out.float(), y)
            loss.backward()
            optimizer.step()
            seen = torch.minimum(seen, loss.detach())
            with torch.no_grad():
                quotient = x[0] / torch.zeros(8)
                ratio = torch.where(quotient.isfinite(), quotient, 0)
    """,
    "warm-up from zero in bfloat16": """
        model.bfloat16()
        optimizer = torch.optim.SGD(model.parameters(), 1.0)
        scheduler = LambdaLR(optimizer, lambda step: min(step / 2, 1.0))
        for x, y in data:
            optimizer.zero_grad()
            model(x.bfloat16()).float().sum().backward()
            optimizer.step()
            scheduler.step()
    """,
    "functions of functions": """
        from torch.func import functional_call, grad, vmap

        params = dict(model.named_parameters())

        def one(params, x, y):
            return (functional_call(model, params, x[None]) - y).pow(2).sum()

        for x, y in data:
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                every = vmap(grad(one), (None, 0, 0))(params, x, y)
            for name, p in params.items():
                p.grad = every[name].mean(0).to(p.dtype)
            optimizer.step()
    """,
    "custom function": """
        class Double(torch.autograd.Function):
            @staticmethod
            @torch.amp.custom_fwd(device_type="cpu", cast_inputs=torch.float32)
            def forward(ctx, x):
                return x * 2

            @staticmethod
            @torch.amp.custom_bwd(device_type="cpu")
            def backward(ctx, grad):
                return grad * 2

        for x, y in data:
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.float16):
                out = Double.apply(model(x))
            scaler.scale(nn.functional.mse_loss(out.float(), y)).backward()
            scaler.step(optimizer)
            scaler.update()
    """,
    "in a thread": """
        import threading

        def train():
            for x, y in data:
                optimizer.zero_grad()
                scaler.scale(loss_of(x, y)).backward()
                scaler.step(optimizer)
                scaler.update()

        thread = threading.Thread(target=train)
        thread.start()
        thread.join()
    """,
    "workers": """
        import multiprocessing

        loader = torch.utils.data.DataLoader(
            data, num_workers=1, multiprocessing_context="fork", batch_size=None
        )
        for x, y in loader:
            optimizer.zero_grad()
            scaler.scale(loss_of(x, y)).backward()
            scaler.step(optimizer)
            scaler.update()
    """,
}
"""Nothing is wrong, whatever it looks like."""
