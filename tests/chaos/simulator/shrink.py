"""Makes a failing run small: first the faults that do not matter go, then everything else that does not.

Each step draws from its own seed, so what is left behaves as it did; a smaller run counts if it breaks the same
invariant in the same way.
"""

from dataclasses import replace

from chaos.simulator.plan import Plan, Step
from chaos.simulator.run import execute

_SMALLEST_CHUNK = 1


def shrink(plan: Plan, name: str, most_runs: int = 600) -> Plan:
    budget = [most_runs]

    def fails(smaller: Plan) -> bool:
        budget[0] -= 1
        violation = execute(smaller).violation
        return violation is not None and violation.name == name

    plan = _without_faults(plan, fails, budget)
    chunk = max(len(plan.steps) // 2, _SMALLEST_CHUNK)
    while chunk >= _SMALLEST_CHUNK and budget[0] > 0:
        plan = _without_chunks(plan, chunk, fails, budget)
        chunk //= 2
    return _without_enabled(plan, fails)


def _without_faults(plan: Plan, fails, budget: list[int]) -> Plan:  # type: ignore[no-untyped-def]
    for step in [step for step in reversed(plan.steps) if step.fault]:
        smaller = plan.without(frozenset((step.number,)))
        if budget[0] > 0 and fails(smaller):
            plan = smaller
    return plan


def _without_enabled(plan: Plan, fails) -> Plan:  # type: ignore[no-untyped-def]
    kept = {step.fault for step in plan.steps}
    fewer = replace(plan, faults=tuple(fault for fault in plan.faults if fault in kept))
    return fewer if fails(fewer) else plan


def _without_chunks(plan: Plan, chunk: int, fails, budget: list[int]) -> Plan:  # type: ignore[no-untyped-def]
    at = len(plan.steps)
    while at > 0 and budget[0] > 0:
        part: tuple[Step, ...] = plan.steps[max(0, at - chunk) : at]
        smaller = plan.without(frozenset(step.number for step in part))
        if fails(smaller):
            plan = smaller
        at -= chunk
    return plan
