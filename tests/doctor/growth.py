"""Counters that grow between two trees, and what that means."""
import tempfile

import cases
import trees

CASES = []
case = cases.registrar(CASES, "in 60 s")


def counter(tree, name, value, port=cases.PORT1, folder="hw_counters"):
    tree.put(f"{port}/{folder}/{name}", f"{value}\n")


@case("grow-none all ports")
def quiet(tree):
    pass


@case("grow-symbol mlx5_1:1", text="symbol_error +40 in 60 s")
def symbols(tree):
    counter(tree, "symbol_error", 40, folder="counters")


@case("grow-link mlx5_1:1")
def flap(tree):
    counter(tree, "link_downed", 2, folder="counters")


@case("grow-retransmit mlx5_1:1", text="local_ack_timeout_err +91316, out_of_sequence +6140236")
def retransmits_with_marks(tree):
    counter(tree, "local_ack_timeout_err", 91316)
    counter(tree, "out_of_sequence", 6140236)
    counter(tree, "np_cnp_sent", 17300000)


@case(["grow-retransmit mlx5_1:1", "grow-lossy mlx5_1:1"])
def loss_without_marks(tree):
    counter(tree, "packet_seq_err", 1000)


@case("grow-rnr mlx5_1:1")
def no_buffer(tree):
    counter(tree, "rnr_nak_retry_err", 5)


@case("grow-congestion mlx5_1:1", text="np_cnp_sent +500, rp_cnp_handled +400")
def marks(tree):
    counter(tree, "np_cnp_sent", 500)
    counter(tree, "rp_cnp_handled", 400)


@case("grow-pause mlx5_1:1", text="rx_prio3_pause +600000")
def storm(tree):
    tree.fact("ethtool/eth3/rx_prio3_pause", 600000)


@case("grow-none all ports")
def some_pause(tree):
    tree.fact("ethtool/eth3/rx_prio3_pause", 600)
    tree.fact("ethtool/eth3/rx_prio3_pause_duration", 600000)


@case("grow-wait mlx5_1:1", trees.infiniband)
def credits(tree):
    counter(tree, "port_xmit_wait", 900, folder="counters")


@case("grow-retransmit bnxt_re0:1", trees.bnxt, text="to_retransmits +7")
def bnxt_retransmits(tree):
    port = "/sys/class/infiniband/bnxt_re0/ports/1"
    counter(tree, "to_retransmits", 7, port)
    counter(tree, "rx_cnp_pkts", 7, port)


@case("grow-retransmit rxe0:1", trees.rxe, text="retry_exceeded_err +3")
def rxe_retries(tree):
    counter(tree, "retry_exceeded_err", 3, "/sys/class/infiniband/rxe0/ports/1")


def check(doctor, case_row):
    """The healthy node against the one in which counters grew. Return: ids found."""
    name, node, change, expected, text = case_row
    before = node()
    after = node()
    after.put("/proc/uptime", "86460.00 1000.00\n")
    change(after)
    with tempfile.TemporaryDirectory() as old, tempfile.TemporaryDirectory() as new:
        before.write(old)
        after.write(new)
        document = doctor.report(name, new, "--since", old)
    if document is None:
        return set()
    grown = {(row["id"], row["object"]): row["seen"] for row in document["findings"]
             if row["id"].startswith("grow-")}
    extra = set(grown) - expected
    if expected - set(grown) or {row for row in extra if row[0] != "grow-congestion"}:
        doctor.fail(name, f"found {sorted(grown)}, expected {sorted(expected)}")
    if not any(text in grown.get(row, "") for row in expected):
        doctor.fail(name, f"'{text}' is not in {sorted(grown.values())}")
    return {row[0] for row in grown}
