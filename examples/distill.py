"""Distil a teacher into a student in bfloat16."""

import torch
import torch.nn.functional as F


def distillation_loss(student_logits, teacher_logits, temperature):
    """The cross entropy of the student's distribution with the teacher's."""
    target = F.softmax(teacher_logits / temperature, dim=-1)
    probs = F.softmax(student_logits / temperature, dim=-1)
    return -(target * torch.log(probs)).sum(dim=-1).mean()


def distill(student, teacher, loader, temperature=2.0):
    optimizer = torch.optim.AdamW(student.parameters(), lr=3e-4)
    scaler = torch.amp.GradScaler("cuda")
    teacher.eval()
    for images, _ in loader:
        images = images.cuda(non_blocking=True)
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            with torch.no_grad():
                teacher_logits = teacher(images)
            loss = distillation_loss(student(images), teacher_logits, temperature)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
