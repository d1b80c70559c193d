"""What is drawn while somebody follows a snapshot: all of it, and each table that moves, with its pace."""

from typing import Any

from rich.console import Console
from rich.progress import Progress, TaskID, TextColumn

from tidegate_admin.cli.snapshot import _draw


def table(name: str, percent: float, rate: float, left: float | None) -> dict[str, Any]:
    rows = round(percent * 100)
    return {"table": name, "percent": percent, "rows": rows, "rows_per_second": rate, "seconds_left": left}


def test_there_is_a_bar_for_all_of_it_and_one_for_each_table_that_moves() -> None:
    progress = Progress(TextColumn("{task.description}|{task.percentage:.1f}%|{task.fields[pace]}"))
    drawn: dict[str, TaskID] = {}
    console = Console(width=120, force_terminal=False)

    def shown(*tables: dict[str, Any]) -> list[str]:
        whole = table("", 25.0, 1200.0, 62.0) | {"state": "running", "waits_for": "", "by_table": list(tables)}
        _draw(progress, drawn, whole)
        with console.capture() as captured:
            console.print(progress.get_renderable())
        return captured.get().replace("\u202f", " ").split("\n")[:-1]

    both = shown(table("public.orders", 50.0, 1000.0, 5.0), table("public.items", 0.0, 0.0, None))
    other = shown(table("public.orders", 100.0, 0.0, None), table("public.items", 10.0, 200.0, None))

    whole = "running|25.0%|2 500 rows, 1 200 a second, 1 min left"
    assert [line.strip() for line in both] == [whole, "public.orders|50.0%|5 000 rows, 1 000 a second, 5.0 s left"]
    assert [line.strip() for line in other] == [whole, "public.items|10.0%|1 000 rows, 200 a second"]
