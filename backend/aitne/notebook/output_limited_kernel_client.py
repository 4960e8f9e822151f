"""Client of a kernel that runs the cells of a notebook and keeps their outputs within limits.

Needs nbclient.
"""

from __future__ import annotations

from typing import Any

from nbclient import NotebookClient

from aitne.notebook.cell_output_limits import CellOutputs, OutputBudget, format_size
from aitne.notebook.job_log import JobLog


class BoundedClient(NotebookClient):
    """nbclient's client with limits on the outputs, which are applied while outputs arrive. Printed
    text is also written to the job's log.

    The state of widgets is not stored, because widgets work only with a running kernel.
    """

    def __init__(self, notebook: Any, log: JobLog, **options: Any) -> None:
        super().__init__(notebook, **options)
        self._job_log = log
        self.messages = 0
        """Number of outputs that have arrived."""
        self._budget = OutputBudget()
        self._cells: dict[int, CellOutputs] = {}

    def finish_cell(self, index: int) -> None:
        """Complete the outputs of the cell with this index, after the cell has ended."""
        if index in self._cells:
            omitted = self._cells[index].finish()
            if omitted:
                self._job_log.write_line(
                    f"[{format_size(omitted)} of output left out, or only in the copy]"
                )

    def output(
        self, outs: list[Any], msg: dict[str, Any], display_id: str | None, cell_index: int
    ) -> None:
        """Store an output of a cell, and write its text to the job's log.

        Overrides nbclient's method. ``outs`` is the cell's list of outputs, ``msg`` the message on
        the kernel's iopub channel.
        """
        self.messages += 1
        cell = self._get_outputs(cell_index, outs)
        kind, content = msg["msg_type"], msg["content"]
        if self.clear_before_next_output:
            self._clear_outputs(cell, cell_index)
        if kind == "stream":
            self._job_log.write(cell.add_text(str(content["name"]), str(content["text"])))
        elif kind == "error":
            cell.add_error({"output_type": kind, **content})
            self._job_log.write("\n".join(cell.kept[-1]["traceback"]) + "\n")
        elif kind in ("display_data", "execute_result"):
            found = {"output_type": kind, "data": content["data"], "metadata": content["metadata"]}
            if kind == "execute_result":
                found["execution_count"] = content["execution_count"]
            count = len(cell.kept)
            cell.add_output(found)
            if display_id and len(cell.kept) > count:
                places = self._display_id_map.setdefault(display_id, {})
                places.setdefault(cell_index, []).append(count)

    def clear_output(self, outs: list[Any], msg: dict[str, Any], cell_index: int) -> None:
        """Remove the outputs of a cell: immediately or, if the message has ``wait``, before its
        next output."""
        if msg["content"].get("wait"):
            self.clear_before_next_output = True
        else:
            self._clear_outputs(self._get_outputs(cell_index, outs), cell_index)

    def handle_comm_msg(self, outs: list[Any], msg: dict[str, Any], cell_index: int) -> None:
        """Ignore a message of a widget."""

    def _update_display_id(self, display_id: str, msg: dict[str, Any]) -> None:
        self.messages += 1
        content = msg["content"]
        for cell_index, places in self._display_id_map.get(display_id, {}).items():
            for index in places:
                self._cells[cell_index].replace(index, content["data"], content["metadata"])

    def _get_outputs(self, index: int, outs: list[Any]) -> CellOutputs:
        cell = self._cells.get(index)
        if cell is None or cell.kept is not outs:
            cell = self._cells[index] = CellOutputs(outs, self._budget)
        return cell

    def _clear_outputs(self, cell: CellOutputs, index: int) -> None:
        cell.clear()
        self.clear_display_id_mapping(index)
        self.clear_before_next_output = False
