#!/usr/bin/env python3
"""Sums up test runs from nextest's JUnit files.

usage: scripts/test-summary.py [--all] FILE...

It prints the skipped tests with their reasons, the 15 slowest, and as its last line `N passed, N failed, N skipped`. A test that
cannot run writes `test skipped: NAME: REASON` to standard error and passes for nextest, so skips come from the stored output. The exit
code is 0 only if a test ran and none failed.

--all   is for CI. The files must have every test that `cargo nextest list` names, each once, and the only reason for a skip
        is missing hardware, because CI installs everything else.
"""

import collections
import json
import re
import subprocess
import sys
import xml.etree.ElementTree as xml

SKIPPED = re.compile(r"^test skipped: (.*)$", re.MULTILINE)
SLOWEST = 15


def cases(files):
    """All test cases: name, seconds, whether it failed, and the reason for which it was skipped."""
    for file in files:
        for suite in xml.parse(file).getroot().iter("testsuite"):
            for case in suite.iter("testcase"):
                outputs = [part.text or "" for part in case if part.tag in ("system-out", "system-err")]
                reason = SKIPPED.search("\n".join(outputs))
                failed = any(part.tag in ("failure", "error") for part in case)
                name = f"{suite.get('name')} {case.get('name')}"
                yield name, float(case.get("time", 0)), failed, reason and reason.group(1)


def listed():
    """Every test of the workspace, whatever profile runs it."""
    command = ["cargo", "nextest", "list", "--workspace", "--ignore-default-filter", "--message-format", "json"]
    suites = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["rust-suites"]
    return [f"{suite} {name}" for suite, tests in suites.items() for name in tests["testcases"]]


def differences(ran):
    """What ran although it is not listed, is listed and did not run, or ran twice."""
    ran, want = collections.Counter(ran), collections.Counter(listed())
    return [f"{name}: listed {want[name]} times, ran {ran[name]} times" for name in ran | want if ran[name] != want[name]]


def main():
    files = [word for word in sys.argv[1:] if word != "--all"]
    is_ci = "--all" in sys.argv
    if not files:
        sys.exit(__doc__)
    found = list(cases(files))
    skipped = sorted({reason for *_, failed, reason in found if reason and not failed})
    failed = sorted(name for name, _, failed, _ in found if failed)
    faults = [f"not run as listed: {line}" for line in differences([name for name, *_ in found])] if is_ci else []
    wrong = [reason for reason in skipped if ": hardware: " not in reason] if is_ci else []
    faults += [f"skipped, but it can be installed: {reason}" for reason in wrong]
    print(f"the {min(SLOWEST, len(found))} slowest tests:")
    for name, seconds, *_ in sorted(found, key=lambda case: -case[1])[:SLOWEST]:
        print(f"  {seconds:7.1f} s  {name}")
    for reason in skipped:
        print(f"test skipped: {reason}")
    for name in failed:
        print(f"test failed: {name}")
    for fault in faults:
        print(fault)
    count_skipped = sum(1 for *_, failed, reason in found if reason and not failed)
    print(f"{len(found) - len(failed) - count_skipped} passed, {len(failed)} failed, {count_skipped} skipped")
    sys.exit(1 if failed or faults or len(found) == count_skipped else 0)


main()
