"""Parameters that no form of the server may take: a flow, what is asked of it, and what is said of that."""

from flows.ingest import run_ingest
from flows.report import run_report
from flows.rerun import run_part
from flows.study import run_study

HOUSING = {"study": "housing"}
CELL = HOUSING | {"task": "run_block"}

OUT = "'out'.*must be the name of a folder below reports/out, of at most 64 letters, digits, - and _, got "

WRONG = {
    "unknown study": (run_study, {"study": "hosing"}, "'study'.*'hosing' is not one of"),
    "no study": (run_study, {}, "'study' is a required property"),
    "a file": (run_study, {"study": "/etc/passwd.toml"}, "'study'.*is not one of"),
    "a number for a study": (run_study, {"study": 1}, "1 is not one of"),
    "a list for a study": (run_study, {"study": ["housing"]}, "is not one of"),
    "unknown profile": (run_study, HOUSING | {"profile": "full"}, "'full' is not one of"),
    "no repetitions": (run_study, HOUSING | {"reps": 0}, "0 is less than the minimum of 1"),
    "too many": (run_study, HOUSING | {"reps": 10**9}, "greater than the maximum"),
    "text for a number": (
        run_study,
        HOUSING | {"reps": "3; rm"},
        "'reps'.*must be a whole number of at least 1 and at most 100,000 or empty, got '3; rm'",
    ),
    "a truth for a number": (run_study, HOUSING | {"reps": True}, "'reps'.*or empty, got True"),
    "text without end for a number": (run_study, HOUSING | {"reps": "3" * 500}, "or empty, got '3{79} …$"),
    "a number for a folder": (run_study, HOUSING | {"out": 3}, "'out'.*must be text or empty, got 3"),
    "negative seed": (run_study, HOUSING | {"seed": -1}, "-1 is less than the minimum of 0"),
    "negative workers": (run_study, HOUSING | {"workers": -1}, "'workers'.*-1 is less than the minimum of 1"),
    "no workers": (run_part, CELL | {"workers": 0}, "'workers'.*0 is less than the minimum of 1"),
    "too many workers": (
        run_study,
        HOUSING | {"workers": 2000},
        "'workers'.*greater than the maximum of 1024",
    ),
    "a part of a worker": (
        run_study,
        HOUSING | {"workers": 1.5},
        "'workers'.*must be a whole number of at least 1 and at most 1,024 or empty, got 1.5",
    ),
    "workers of a report": (run_report, {"workers": 1}, "'workers' was unexpected"),
    "unknown key": (run_study, HOUSING | {"__class__": "os.system"}, "'__class__' was unexpected"),
    "the folder above": (run_study, HOUSING | {"out": "../out"}, OUT),
    "a folder below": (run_study, HOUSING | {"out": "a/../../.."}, OUT),
    "a whole path": (run_study, HOUSING | {"out": "/tmp/out"}, OUT),
    "a hidden folder": (run_study, HOUSING | {"out": ".git"}, OUT),
    "an end of line": (run_study, HOUSING | {"out": "a\n"}, OUT),
    "a text without end": (
        run_study,
        HOUSING | {"command": "x" * 10_000},
        "'command'.*must have at most 1,000 characters, got 10,000: 'x{79} …$",
    ),
    "an unknown task": (run_part, CELL | {"task": "rm"}, "'rm' is not one of"),
    "no task": (run_part, HOUSING, "'task' is a required property"),
    "a cell without end": (
        run_part,
        CELL | {"cell": "x" * 1000},
        "'cell'.*must have at most 300 characters, got 1,000",
    ),
    "a study of 10 MB": (run_study, {"study": "x" * 10**7}, "'study'.*'x{79} … is not one of"),
    "a folder of 10 MB": (run_study, HOUSING | {"out": "x" * 10**7}, f"{OUT}'x{{79}} …$"),
    "an unknown dataset": (run_ingest, {"datasets": ["../secret"]}, "'../secret' is not one of"),
    "one dataset twice": (run_ingest, {"datasets": ["housing", "housing"]}, "non-unique"),
    "an unknown report": (run_report, {"studies": ["x"]}, "'x' is not one of"),
}
