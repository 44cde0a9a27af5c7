"""The runtime verifier: holds a change of code against float64, without executing the code.

    from amp_lint.verify import prove

    proof = prove(before, after)
    proof.verdict  # Verdict.PROVEN, REFUTED (see proof.counterexample) or NOT_COMPARABLE

torch is imported in worker processes only.
"""

from __future__ import annotations

from amp_lint.verify.proof import Environment, Failure, Judgement, Proof, ProofSettings, Verdict
from amp_lint.verify.prover import Change, Prover, VerifyError, prove

__all__ = [
    "Change",
    "Environment",
    "Failure",
    "Judgement",
    "Proof",
    "ProofSettings",
    "Prover",
    "Verdict",
    "VerifyError",
    "prove",
]
