#!/usr/bin/env python3
"""`sextant export` over segments with known contents.

usage: test_export.py SEXTANT CASE
"""
import os
import random
import subprocess
import sys
import tempfile
import threading

from exporter import Exporter, Page, once, promtool

import trees

from make_segment import (CALLER, CLOSED, NS, RECEIVES, SENDS, WIRE, Segment, job,
                          this_process)

SEXTANT = sys.argv[1]
BYTES = "sextant_connection_bytes_total"
MESSAGES = "sextant_connection_messages_total"


def put(folder, segment):
    """Writes over a segment in its place, as its process would."""
    with open(os.path.join(folder, segment.name()), "r+b") as file:
        file.write(segment.bytes())


def contents(folder):
    """Every number of a segment comes out, under its name and unit."""
    segment = Segment(**this_process(), rank=3, ranks=8, job="k8s:ml/train-0", warnings=2)
    segment.add_port("mlx5_0", flaps=4)
    link = segment.add_link("mlx5_0", "node2:77", conns=2)
    conn = segment.add_conn(
        SENDS, link, messages=10, started=12, done=10, bytes_=1 << 21, not_now=5,
        last_start=1, last_done=1, sizes={0: 1, 1: 1, 15: 1, 16: 2, 1 << 20: 5},
        waits={WIRE: {1000: 1, 5000: 6, 2 * NS: 2, 30 * NS: 1}, CALLER: {}})
    segment.add_path(conn, 0, peer_hca="mlx5_5")
    segment.add_path(conn, 0, qpn=0x101, peer_hca="mlx5_5")
    segment.add_conn(RECEIVES, link, messages=3, bytes_=300, waiting=0)
    segment.add_conn(SENDS, link, state=3, messages=1, bytes_=7)
    segment.add_event(1, 5, "failed", 2)
    segment.write(folder)
    page = once(SEXTANT, folder)
    ours = {"process": segment.name()[8:], "job_id": "k8s:ml/train-0", "rank": "3"}
    sends = dict(ours, nic="mlx5_0", peer="node2:77", direction="send")
    assert page.one(BYTES, **sends) == (1 << 21) + 7
    assert page.one(BYTES, **dict(sends, direction="receive")) == 300
    assert page.one(MESSAGES, **sends) == 11
    assert page.one("sextant_connection_requests_total", **sends) == 13
    assert page.one("sextant_connection_requests_done_total", **sends) == 11
    assert page.one("sextant_connection_not_now_total", **sends) == 5
    assert page.one("sextant_connection_open", **sends) == 1
    assert page.one("sextant_connection_failed", **sends) == 1
    assert page.one("sextant_connection_in_flight", **sends) == 2
    assert page.one("sextant_connection_stalled_seconds", waits_for="wire", **sends) > 0
    assert page.one("sextant_connection_stalled_seconds", waits_for="peer", **sends) == 0
    assert page.one("sextant_process_info", ranks="8", abi="11", pid=str(os.getpid()),
                    peer=f"node1:{os.getpid()}", **ours) == 1
    assert page.one("sextant_process_alive", **ours) == 1
    assert page.one("sextant_process_warnings_total", **ours) == 2
    assert page.one("sextant_process_events_total", kind="failed", **ours) == 1
    assert page.one("sextant_process_connections_opened_total", **ours) == 3
    assert page.one("sextant_port_process_info", hca="mlx5_0", port="1", state="up",
                    gid="::ffff:10.0.1.1", gid_index="3", **ours) == 1
    assert page.one("sextant_port_process_flaps_total", hca="mlx5_0", **ours) == 4
    assert page.one("sextant_port_peer_info", hca="mlx5_0", port="1", peer_hca="mlx5_5",
                    **sends) == 1
    histograms(page, sends)


def histograms(page, labels):
    name = "sextant_connection_wait_seconds"
    wire = dict(labels, waits_for="wire")
    assert page.one(name + "_count", **wire) == 10
    # Middles of the segment's buckets: each is at most an eighth away.
    wanted = 1e-6 + 6 * 5e-6 + 2 * 2 + 16
    assert abs(page.one(name + "_sum", **wire) / wanted - 1) < 0.25
    below = {float(dict(has)["le"]): value for (found, has), value in page.samples.items()
             if found == name + "_bucket" and wire.items() <= dict(has).items()}
    assert len(below) == 24
    assert [below[le] for le in sorted(below)] == sorted(below.values())
    assert below[2.048e-6] == 1 and below[8.192e-6] == 7 and below[float("inf")] == 10
    assert below[2.147483648] == 9 and below[1.073741824] == 7
    name = "sextant_connection_message_size_bytes"
    sizes = {"0.0": 1, "15.0": 3, "63.0": 5, "262143.0": 5, "4194303.0": 10, "+Inf": 10}
    for le, count in sizes.items():
        assert page.one(name + "_bucket", le=le, **labels) == count, le
    assert page.one(name + "_sum", **labels) == page.one(BYTES, **labels)


def promtool_agrees(folder):
    """promtool has nothing to say of a page, and something of damaged ones."""
    for segment in job(100):
        segment.write(folder)
    page = once(SEXTANT, folder)
    assert len(page.samples) > 400
    status, said = promtool("check", "metrics", text=page.text)
    assert status == 0 and said == "", said
    counter = "sextant_connection_bytes_total"
    for damage, complaint in ((page.text.replace(counter, counter[:-6]), "_total"),
                              (page.text.replace(f"# HELP {counter} ", "# hulp "), "help"),
                              (page.text.replace('"} ', '} '), "error")):
        status, said = promtool("check", "metrics", text=damage)
        assert status != 0 and complaint in said, said


def checker(folder):
    """The form that every test's pages have to have can be missed."""
    for segment in job(100):
        segment.write(folder)
    text = once(SEXTANT, folder).text
    line = next(line for line in text.split("\n") if line.startswith(BYTES))
    for damage in (text[:-1], text.replace(line, f"{line}\n{line}"),
                   text.replace('job_id="', "job_id="), text.replace(line, line.replace("_total", "")), text.replace(line, "x 1"),
                   text.replace(" counter\n", "\n", 1), text.replace(line, line[:-4] + "NaN.")):
        assert damage != text
        try:
            Page(damage)
        except (AssertionError, ValueError):
            continue
        raise AssertionError(f"not seen: {damage[:2000]}")


def monotonic(folder):
    """Counters grow whatever becomes of records, links and 32-bit buckets."""
    segment = Segment(**this_process())
    link = segment.add_link("mlx5_0", "node2:77")
    segment.add_conn(SENDS, link, messages=10, bytes_=1000, waits={WIRE: {5000: 10}})
    segment.add_conn(RECEIVES, link, messages=4, bytes_=400)
    segment.write(folder)
    with Exporter(SEXTANT, folder) as exporter:
        def shown():
            page = exporter.page()
            wire = page.one("sextant_connection_wait_seconds_count", direction="send",
                            waits_for="wire")
            return [page.sum(BYTES, direction=way) for way in ("send", "receive")] + [wire]

        def become(conns, sent, received=0):
            after = Segment(**segment.facts)
            after.add_link("mlx5_0", "node2:77", sent=(sent // 100, sent, 0),
                           received=(received // 100, received, 0))
            for direction, generation, moved, waits in conns:
                after.add_conn(direction, 0, messages=moved // 100, bytes_=moved,
                               generation=generation, waits={WIRE: {5000: waits}})
            put(folder, after)
            return shown()

        assert shown() == [1000, 400, 10]
        # The sender's record was given away when it had 1500, unseen; it receives now.
        assert become([(RECEIVES, 1, 50, 0), (RECEIVES, 0, 400, 0)], 1500) == [1500, 450, 10]
        assert become([(RECEIVES, 1, 50, 0), (RECEIVES, 0, 400, 0)], 1500) == [1500, 450, 10]
        # The record is given away before the link has got what it held: late, never back.
        assert become([(SENDS, 2, 5, 3), (RECEIVES, 0, 400, 0)], 1500) == [1505, 450, 13]
        assert become([(SENDS, 2, 5, 3), (RECEIVES, 0, 400, 0)], 1500, 60) == [1505, 460, 13]
        # A bucket wraps.
        assert become([(SENDS, 2, 5, 2 ** 32 - 1)], 1500)[2] == 10 + 2 ** 32 - 1
        assert become([(SENDS, 2, 5, 4)], 1500)[2] == 10 + 2 ** 32 + 4
        # Nonsense: a counter that goes back, a link that does.
        assert become([(SENDS, 2, 1, 4)], 3) == [1505, 460, 10 + 2 ** 32 + 4]
        page = exporter.page(open_metrics=True)
        assert page.sum(MESSAGES) > 0


def shared(folder):
    """Connections that found no record are told as of their direction, by what their link has."""
    segment = Segment(**this_process(), shared=9)
    for ended in (0, 2, 0):
        segment.add_comm(7 + ended, ended=ended)
    link = segment.add_link("mlx5_0", "node2:77", conns=10, shared=(6, 3), sent=(7, 700, 70),
                            received=(2, 200, 20))
    segment.add_conn(SENDS, link, messages=1, bytes_=50, not_now=5, sizes={50: 1})
    segment.write(folder)
    page = once(SEXTANT, folder)
    for metric, sent, received in ((BYTES, 750, 200), (MESSAGES, 8, 2),
                                   ("sextant_connection_not_now_total", 75, 20),
                                   ("sextant_connection_open", 7, 3),
                                   ("sextant_connection_message_size_bytes_count", 1, 0),
                                   ("sextant_connection_message_size_bytes_sum", 50, 0)):
        assert page.one(metric, direction="send") == sent, metric
        assert page.one(metric, direction="receive") == received, metric
    assert page.one("sextant_process_connections_without_record_total", rank="0") == 9
    assert page.one("sextant_process_communicators", rank="0") == 2


def limits(folder):
    """Past the limit peers share series; what is summed stays the same."""
    segment = Segment(caps=(1, 40, 80, 1, 1, 4), **this_process())
    for peer in range(40):
        link = segment.add_link("mlx5_0", f"node{peer}:77")
        segment.add_conn(SENDS, link, messages=1, bytes_=peer + 1, waits={WIRE: {5000: 2}})
        segment.add_conn(RECEIVES, link, messages=1, bytes_=1000)
    segment.write(folder)
    for limit, named in ((80, 80), (10, 10), (0, 0)):
        with Exporter(SEXTANT, folder, "--limit", str(limit)) as exporter:
            for _ in range(2):
                page = exporter.page()
                assert page.sum(BYTES, direction="send") == 40 * 41 / 2
                assert page.sum(BYTES, direction="receive") == 40_000
                assert page.sum("sextant_connection_wait_seconds_count", waits_for="wire") == 80
                assert page.one("sextant_export_peers") == named
                assert page.one("sextant_export_peers_limit") == limit
                assert page.one("sextant_export_peers_merged_total") == 80 - named
                assert len(page.all(BYTES)) == named + (2 if named < 80 else 0)
                assert len(page.all(BYTES, peer="others")) == (2 if named < 80 else 0)


def many_processes(folder):
    """More processes than have labels of their own: the rest is one, and sums stay right."""
    for number in range(140):
        segment = Segment(caps=(1, 1, 1, 1, 1, 2), pid=1000 + number, rank=number)
        segment.add_port("mlx5_0")
        segment.add_conn(SENDS, segment.add_link("mlx5_0", "node2:77"), messages=1, bytes_=100)
        segment.add_event(1, 6, "stall")
        segment.write(folder, lives=True)
    page = once(SEXTANT, folder, "--limit", "1000")
    assert page.sum(BYTES) == 14_000 and len(page.all(BYTES)) == 129
    assert page.one(BYTES, process="others", nic="others", peer="others") == 1200
    assert page.sum("sextant_process_events_total", kind="stall") == 140
    assert len(page.all("sextant_process_info")) == 128
    assert page.one("sextant_export_segments", state="live") == 140


def lives(folder):
    """A process that works, then ends: its last numbers stay for a while, marked as ended."""
    segment = Segment(**this_process())
    link = segment.add_link("mlx5_0", "node2:77")
    segment.add_conn(SENDS, link, messages=1, bytes_=100, started=2, last_start=1)
    path = segment.write(folder)
    crashed = Segment(pid=99)
    crashed.add_conn(SENDS, crashed.add_link("mlx5_1", "node2:78"), messages=1, bytes_=70,
                     started=2, last_start=1)
    crashed_path = crashed.write(folder)
    with Exporter(SEXTANT, folder) as exporter:
        page = exporter.page()
        assert page.one("sextant_process_alive", process=segment.name()[8:]) == 1
        assert page.one("sextant_process_alive", process=crashed.name()[8:]) == 0
        assert page.one("sextant_connection_in_flight", nic="mlx5_0") == 1
        assert page.one("sextant_connection_in_flight", nic="mlx5_1") == 0
        assert page.one("sextant_connection_stalled_seconds", nic="mlx5_1", waits_for="wire") == 0
        assert page.one("sextant_export_segments", state="ended") == 1
        # It does some more work that nobody looks at, closes and removes its file.
        end = Segment(**dict(segment.facts, state=CLOSED))
        end.add_link("mlx5_0", "node2:77")
        end.add_conn(SENDS, 0, state=2, messages=3, bytes_=300)
        put(folder, end)
        os.unlink(path)
        os.unlink(crashed_path)
        for _ in range(2):
            page = exporter.page()
            assert page.one("sextant_process_alive", process=segment.name()[8:]) == 0
            assert page.one(BYTES, nic="mlx5_0") == 300
            assert page.one(BYTES, nic="mlx5_1") == 70
            assert page.one("sextant_connection_open", nic="mlx5_0") == 0


def odd(folder):
    """Files that are no segments, folders that are none, texts that want escaping."""
    os.mkdir(f"{folder}/a")
    os.mkdir(f"{folder}/b")
    segment = Segment(**this_process(), job='a"b\\c,{}\u00e9\n')
    segment.add_conn(SENDS, segment.add_link('m"\\', "n\u00f6de:1"), messages=1, bytes_=5)
    segment.write(f"{folder}/a")
    segment.write(f"{folder}/b")  # the same name in another folder
    for name, data in (("sextant-0-1-1", b""), ("sextant-0-1-2", b"\0" * 8192),
                       ("sextant-0-1-3", Segment(version=2).bytes()), ("else", b"x"),
                       ("sextant-0-1-4", Segment(magic=1).bytes())):
        with open(f"{folder}/a/{name}", "wb") as file:
            file.write(data)
    page = once(SEXTANT, f"{folder}/nothing", "--dir", f"{folder}/[ab]")
    assert page.one(BYTES, job_id='a\\"b\\\\c,{}\u00e9?', nic='m\\"\\\\',
                    peer="n\u00f6de:1") == 5
    assert page.sum(BYTES) == 10 and page.one(BYTES, process="others") == 5
    assert page.one("sextant_export_segments", state="version") == 1
    assert page.one("sextant_export_segments", state="damaged") >= 1
    status, said = promtool("check", "metrics", text=page.text)
    assert status == 0, said
    empty = once(SEXTANT, f"{folder}/nothing")
    assert len(empty.all("sextant_process_info")) == 0


def ports(folder):
    """What /sys and ethtool count of each port, and whom the port belongs to."""
    for make, name in ((trees.roce, "mlx5_0"), (trees.infiniband, "mlx5_0"),
                       (trees.bnxt, "bnxt_re0"), (trees.rxe, "rxe0")):
        tree, is_infiniband = make(), make == trees.infiniband
        with tempfile.TemporaryDirectory() as root:
            port = f"/sys/class/infiniband/{name}/ports/1"
            tree.put(f"{port}/counters/symbol_error", "91316\n")
            tree.put(f"{port}/counters/link_downed", "3\n")
            tree.put(f"{port}/counters/port_xmit_data", "1000\n")
            tree.put(f"{port}/counters/port_rcv_data", f"{2 ** 62 - 1}\n")
            tree.put(f"{port}/hw_counters/out_of_sequence", "6140236\n")
            tree.put(f"{port}/hw_counters/np_cnp_sent", "17300000\n")
            tree.put(f"{port}/hw_counters/port_xmit_data", "5\n")  # once is enough
            tree.put(f"{port}/hw_counters/lifespan", "10\n")
            tree.put(f"{port}/hw_counters/novelty", "7\n")
            tree.put(f"{port}/hw_counters/no number", "7\n")
            tree.put(f"{port}/hw_counters/no_number", "N/A\n")
            tree.fact("ethtool/eth2/tx_prio3_pause", 12)
            tree.fact("ethtool/eth2/tx_prio3_pause_duration", 99)
            tree.write(root)
            page = once(SEXTANT, folder, root=root)
        ours = {"hca": name, "port": "1"}
        for family, counter, value in (
                ("symbol_errors", "symbol_error", 91316), ("link_failures", "link_downed", 3),
                ("retransmissions", "out_of_sequence", 6140236),
                ("congestion_marks", "np_cnp_sent", 17_300_000), ("other", "novelty", 7)):
            assert page.one(f"sextant_port_{family}_total", counter=counter, **ours) == value
        assert page.one("sextant_port_transmitted_bytes_total", **ours) == 4000
        assert page.one("sextant_port_received_bytes_total", **ours) == float(2 ** 64 - 4)
        assert page.one("sextant_port_up", **ours) == 1
        assert page.one("sextant_port_speed_bytes_per_second", **ours) > 1e8
        assert not any("lifespan" in str(key) or "no_number" in str(key) for key in page.samples)
        pauses = page.all("sextant_port_pause_frames_total", counter="tx_prio3_pause", **ours)
        assert pauses == ([] if is_infiniband else [12]), pauses
        status, said = promtool("check", "metrics", text=page.text)
        assert status == 0, said


def damaged(folder):
    """Whatever stands in a segment, the exporter answers with a page that is one."""
    chance = random.Random(5)
    segment = job(100)[0]
    segment.facts |= this_process()
    segment.write(folder)
    whole = bytearray(segment.bytes())
    with Exporter(SEXTANT, folder) as exporter, \
            open(os.path.join(folder, segment.name()), "r+b") as file:
        for turn in range(200):
            bytes_ = bytearray(whole)
            for _ in range(1 << chance.randrange(12)):
                # Mostly where something stands; numbers tend to be large or texts long.
                at = chance.choice((chance.randrange(0, 4096), chance.randrange(4096, len(whole)),
                                    chance.randrange(4096, 4096 + 8192)))
                bytes_[at:at + 4] = chance.choice((b"\xff" * 4, chance.randbytes(4), b"\0" * 4,
                                                   b"\"\\\n}"))
            os.pwrite(file.fileno(), bytes_[:len(whole)], 0)
            exporter.page(open_metrics=turn % 2 == 0)
            if turn % 20 == 0:  # from the start
                once(SEXTANT, folder)


def textfile(folder):
    """A file for node_exporter is replaced whole, or left as it was."""
    segment = Segment(**this_process())
    segment.add_conn(SENDS, segment.add_link("mlx5_0", "node2:77"), messages=1, bytes_=5)
    segment.write(folder)
    target = f"{folder}/sextant.prom"
    command = [SEXTANT, "export", "--dir", folder, "--textfile", target]
    subprocess.run([*command, "--once"], check=True)
    with open(target, encoding="utf-8") as file:
        assert Page(file.read()).sum(BYTES) == 5
    assert os.stat(target).st_mode & 0o777 == 0o644
    process = subprocess.Popen([*command, "--interval", "1"])
    seen = set()
    while len(seen) < 3:  # renamed in: another file each time, and whole whenever it is read
        with open(target, encoding="utf-8") as file:
            seen.add(os.fstat(file.fileno()).st_mtime_ns)
            assert Page(file.read()).sum(BYTES) == 5
    process.terminate()
    assert process.wait(30) == 0
    assert sorted(os.listdir(folder)) == sorted((segment.name(), "sextant.prom"))
    done = subprocess.run([SEXTANT, "export", "--once", "--textfile", f"{folder}/no/x.prom"],
                          check=False, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2 and "no/x.prom: No such file" in done.stderr, done.stderr


def usage(_folder):
    for options, complaint in ((["--listen", "9847"], "ADDR:PORT"),
                               (["--listen", "::1:9847"], "ADDR:PORT"),
                               (["--listen", "localhost:http"], "ADDR:PORT"),
                               (["--limit", "-1"], "--limit"),
                               (["--interval", "0"], "--interval"),
                               (["--once", "--listen", "127.0.0.1:0"], "--listen"),
                               (["x"], "takes no argument")):
        done = subprocess.run([SEXTANT, "export", *options], check=False, stderr=subprocess.PIPE,
                              text=True)
        assert done.returncode == 64 and complaint in done.stderr, (options, done.stderr)
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run([SEXTANT, "export", "--once"], check=False, stdout=full,
                              stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2 and "No space left" in done.stderr, done.stderr


def concurrent(folder):
    """Many clients at once get whole pages whose counters never go back."""
    for segment in job(100):
        segment.write(folder)
    with Exporter(SEXTANT, folder) as exporter:
        failed = []

        def scrape(open_metrics):
            last = 0
            try:
                for _ in range(5):
                    now = exporter.page(open_metrics).sum(BYTES)
                    assert now >= last > -1
                    last = now
            except Exception as error:  # pylint: disable=broad-except
                failed.append(error)

        threads = [threading.Thread(target=scrape, args=(i % 2 == 0,)) for i in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failed, failed


def main():
    cases = {"contents": contents, "promtool": promtool_agrees, "checker": checker, "monotonic": monotonic, "shared": shared,
             "limits": limits, "many_processes": many_processes, "lives": lives, "odd": odd,
             "ports": ports, "damaged": damaged, "textfile": textfile, "usage": usage, "concurrent": concurrent}
    with tempfile.TemporaryDirectory() as folder:
        cases[sys.argv[2]](folder)


main()
