"""Train a text classifier in float16. It runs without an error and learns almost nothing."""

import argparse

import torch
from torch import nn
from torch.cuda.amp import GradScaler, autocast
from torch.utils.data import DataLoader, Dataset


class Texts(Dataset):
    """Token sequences of various lengths, padded with 0, and their classes."""

    def __init__(self, size, length, vocabulary, classes):
        generator = torch.Generator().manual_seed(0)
        self.labels = torch.randint(classes, (size,), generator=generator)
        self.tokens = torch.randint(1, vocabulary, (size, length), generator=generator)
        self.tokens[:, 0] = self.labels + 1
        lengths = torch.randint(length // 2, length + 1, (size, 1), generator=generator)
        self.tokens[torch.arange(length) >= lengths] = 0

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.tokens[index], self.labels[index]


class Classifier(nn.Module):
    def __init__(self, vocabulary, classes, width=64):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width, padding_idx=0)
        self.norm = nn.LayerNorm(width, eps=1e-12)
        self.encoder = nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True)
        self.head = nn.Linear(width, classes)

    def forward(self, tokens):
        hidden = self.encoder(self.norm(self.embedding(tokens)))
        return self.head(hidden[:, 0])


def train_one_epoch(model, loader, optimizer, scaler, args):
    model.train()
    total = 0.0
    for tokens, labels in loader:
        tokens, labels = tokens.to(args.device), labels.to(args.device)
        optimizer.zero_grad(set_to_none=True)
        with autocast(enabled=args.amp):
            logits = model(tokens)
            loss = nn.functional.cross_entropy(logits, labels)
            scaler.scale(loss).backward()

        # keep exploding gradients in check
        nn.utils.clip_grad_norm_(model.parameters(), max_norm=1.0)
        scaler.step(optimizer)
        scaler.update()
        total += loss.item()
    return total / len(loader)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--size", type=int, default=2048)
    parser.add_argument("--length", type=int, default=32)
    parser.add_argument("--lr", type=float, default=0.1)
    parser.add_argument("--amp", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    args = parser.parse_args()

    torch.manual_seed(0)
    loader = DataLoader(Texts(args.size, args.length, 1000, 8), batch_size=64, shuffle=True)
    model = Classifier(1000, 8).to(args.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9)
    scaler = GradScaler(enabled=args.amp)
    for epoch in range(args.epochs):
        loss = train_one_epoch(model, loader, optimizer, scaler, args)
        print(f"epoch {epoch}: loss {loss:.4f}")


if __name__ == "__main__":
    main()
