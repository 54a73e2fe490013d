#!/usr/bin/env python3
"""message_cost.py reads callgrind's files right, and a bar that is missed fails."""
import os
import tempfile
import unittest

import message_cost

DUMP = """# callgrind format
version: 1

desc: Trigger: Client Request: small

positions: line
events: Ir Dr D1mr

ob=(1) /a/plugin.so
fl=(1) a.c
fn=(1) one
10 5 2
+2 7
cob=(2) /lib/libc.so.6
cfn=(2) two
calls=3 0
* 100 50
ob=(2)
fn=(2)
-4 11 1 9
ob=(1)
fn=(1)
* 1
"""


class ReadDump(unittest.TestCase):
    def test_own_costs_by_object(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "out.1")
            with open(path, "w", encoding="utf-8") as dump:
                dump.write(DUMP)
            scenario, costs = message_cost.read_dump(path, {})
        self.assertEqual(scenario, "small")
        self.assertEqual(costs["/a/plugin.so"], {"Ir": 13, "Dr": 2})
        self.assertEqual(costs["/lib/libc.so.6"], {"Ir": 11, "Dr": 1, "D1mr": 9})


class Judge(unittest.TestCase):
    def judge(self, value, **kinds):
        entry = message_cost.row("a row", "small", "Ir", 100, kinds.get("bar"))
        figures = {} if value is None else {"small": {"Ir": value}}
        return message_cost.judge((entry,), figures)

    def test_at_the_bar(self):
        self.assertTrue(self.judge(40, bar=40))

    def test_over_the_bar(self):
        self.assertFalse(self.judge(41, bar=40))

    def test_not_measured(self):
        self.assertFalse(self.judge(None, bar=40))
        self.assertFalse(self.judge(None))

    def test_without_a_bar(self):
        self.assertTrue(self.judge(1000))


class JudgeTelemetry(unittest.TestCase):
    def judge(self, off, on):
        names = [name for _, name, _ in message_cost.MEASURED]
        names += ["recv_not_done", "send_not_done", "no_credit", "connect"]
        figures = [{name: {"Ir": value} for name in names} for value in (off, on)]
        return message_cost.judge_telemetry(*figures)

    def test_at_the_bars(self):
        self.assertTrue(self.judge(480, 600))

    def test_over_the_bar_of_a_side(self):
        self.assertFalse(self.judge(400, 521))

    def test_over_the_bar_of_a_message(self):
        self.assertFalse(self.judge(590, 601))


if __name__ == "__main__":
    unittest.main()
