"""Presets of workloads in the menus: a new plan made of one, or one for the model that is open."""

from PySide6.QtWidgets import QMenu

from planner.gui.documents import Documents
from planner.gui.session import Session
from planner.scenario.workloads import Workload, with_workload, workloads


def fill_presets(new: QMenu, apply: QMenu, documents: Documents, session: Session) -> None:
    """`new` starts plans; `apply` gives phases and hardware to the open one, in a step that can be undone."""

    def start(workload: Workload) -> None:
        if documents.may_close():
            session.start_with(workload.scenario)

    def take(workload: Workload) -> None:
        session.replace(with_workload(session.state.scenario, workload), f"Plan “{workload.title}”")

    for menu, act in ((new, start), (apply, take)):
        menu.setToolTipsVisible(True)
        for number, workload in enumerate(workloads(), start=1):
            action = menu.addAction(f"&{number} {workload.title}")
            action.setToolTip(workload.text)
            action.triggered.connect(lambda _checked=False, act=act, workload=workload: act(workload))
