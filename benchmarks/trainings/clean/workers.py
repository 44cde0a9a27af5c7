"""Clean: batches from the processes of a DataLoader, a collate function, pinned steps per epoch."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Points(Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        x = torch.randn(5, generator=generator)
        return x, (x.sum() > 0).long()


def main():
    torch.manual_seed(14)
    model = nn.Linear(5, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    scaler = torch.amp.GradScaler("cpu")
    loader = DataLoader(Points(), 6, shuffle=True, num_workers=2)
    for x, y in loader:
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            logits = model(x)
        scaler.scale(nn.functional.cross_entropy(logits.float(), y)).backward()
        scaler.step(optimizer)
        scaler.update()


if __name__ == "__main__":
    main()
