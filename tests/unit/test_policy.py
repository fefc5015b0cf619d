"""Policy files and the decision table made from them."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controlplane.base.yamlfile import MistakesError
from controlplane.policy import schema
from controlplane.policy.explain import explain_memory, used_gpus, with_usual_memory
from controlplane.policy.language import (
    BY_STREAM,
    BY_THREAD,
    COPIES,
    FOLLOW,
    GPUS,
    Executor,
    Interval,
    Log,
    Match,
    Nth,
    Order,
    Policy,
    Rule,
    Share,
)
from controlplane.policy.read import in_order, pooled, read_policy
from controlplane.policy.table import RuleUse, compile_table, read_launches, replace_rules
from ptxtools.errors import ConfigError
from ptxtools.machine.consent import Consent
from ptxtools.native import records

SMALLEST = """version: 1
devices: {home: 0, executors: [1]}
rules:
  - match: {function: "*"}
    device: 1
default: home
"""


def written(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "policy.yaml"
    file.write_text(text)
    return file


def test_the_smallest_policy_sends_everything_to_gpu_1(tmp_path: Path) -> None:
    file = written(tmp_path, SMALLEST)
    assert read_policy(file) == Policy(file, 0, (Executor(1),), (Rule(Match(function="*"), 1, 4),), 0)


def test_without_rules_everything_stays_home(tmp_path: Path) -> None:
    policy = read_policy(written(tmp_path, "version: 1\ndevices: {home: 2, executors: [0]}\n"))
    assert policy.rules == ()
    assert policy.default == 2


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("devices: {executors: [1]}\n", 1, "'version' is missing"),
        ("version: 2\ndevices: {executors: [1]}\n", 1, "version 2 is not known"),
        ("version: 1\ndevices: {home: 0, executors: [0]}\n", 2, "GPU 0 is named before"),
        ("version: 1\ndevices: {executors: [1, 1]}\n", 2, "GPU 1 is named before"),
        ("version: 1\ndevices: {executors: [99]}\n", 2, "'99' is not usable here"),
        (SMALLEST.replace("device: 1", "device: 2"), 5, "'2' is not a place to run"),
        (SMALLEST.replace("device: 1", "device: away"), 5, "'away' is not a place to run"),
        (SMALLEST.replace("device: 1", "device: by_streams"), 5, "a place to run, did you mean 'by_stream'?"),
        (SMALLEST.replace("device: 1", "device: {by_stream: [0, 1]}"), 5, "this is not a single value"),
        (SMALLEST + "memory: {place: by_stream}\n", 7, "'by_stream' is not a place for memory"),
        (SMALLEST.replace("function:", "kernel:"), 4, "unknown key 'kernel'"),
        (SMALLEST.replace("default: home", "default: 7"), 6, "'7' is not a place to run"),
        (SMALLEST.replace('"*"', f'"{"x" * 300}"'), 4, "the pattern does not fit"),
        (SMALLEST + "memory: {place: 3}\n", 7, "'3' is not a place for memory"),
        (SMALLEST + "memory: {move_after: 3}\n", 7, "'place' is missing"),
        (SMALLEST + "memory: {place: follow, move_after: -1}\n", 7, "'-1' is not usable here"),
        (SMALLEST + "memory: {place: home, move_after: 3}\n", 7, "only memory that follows its use moves"),
        (SMALLEST + "memory: {place: follow, pool: true}\n", 7, "GPUs have copies of what others own"),
        (SMALLEST + "memory: {place: copies, reserve: 1GiB}\n", 7, "only a pool leaves memory to copies"),
        (SMALLEST + "memory: {pool: maybe}\n", 7, "'maybe' is not known"),
        (SMALLEST + "disassemble: some\n", 7, "'some' is not known"),
        (SMALLEST + "analysis: {observed: maybe}\n", 7, "'maybe' is not known"),
        (SMALLEST + "analysis: {probes: use}\n", 7, "unknown key 'probes'"),
    ],
)
def test_a_mistake_is_named_with_its_line(tmp_path: Path, text: str, line: int, message: str) -> None:
    file = written(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        read_policy(file)
    assert caught.value.line == line
    assert message in caught.value.message
    assert caught.value.expected


WRONG = """\
version: 2
devices: {home: 0, executors: [1, 99, {gpu: 2, sm_limit: 0, memory_limit: much}]}
rules:
  - {match: {funktion: "*"}, device: 7}
  - {match: {function: "a[", grid: {blocks: many}}, device: away}
  - {match: {}, device: 1, divice: 2}
  - {match: {function: good}}
defualt: home
log: all
memory: {place: 9}
"""


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    """Each with line, key and what is allowed. What follows from another mistake is none: GPU 7 may be one of those."""
    with pytest.raises(MistakesError) as caught:
        read_policy(written(tmp_path, WRONG))
    mistakes = caught.value.mistakes
    assert [each.line for each in mistakes] == sorted(each.line or 0 for each in mistakes)
    assert sorted((each.line, each.message.partition(":")[0]) for each in mistakes) == [
        (1, "version"),
        (2, "devices.executors"),
        (2, "devices.executors.memory_limit"),
        (2, "devices.executors.sm_limit"),
        (4, "rules.match"),
        (5, "rules.device"),
        (5, "rules.match.function"),
        (5, "rules.match.grid.blocks"),
        (6, "rules"),
        (6, "rules.match"),
        (7, "rules"),
        (8, "unknown key 'defualt', did you mean 'default'?"),
        (9, "log"),
    ]
    assert all(each.expected and str(each) in str(caught.value) for each in mistakes)


def test_of_many_mistakes_the_first_are_told(tmp_path: Path) -> None:
    text = SMALLEST + "".join(f"wrong{number}: 1\n" for number in range(30))
    with pytest.raises(MistakesError, match="has 30 mistakes:") as caught:
        read_policy(written(tmp_path, text))
    assert str(caught.value).count("\n") == 21
    assert str(caught.value).endswith("and 10 more")


def test_a_rule_may_give_streams_or_threads_a_gpu(tmp_path: Path) -> None:
    text = SMALLEST.replace("device: 1", "device: by_stream").replace("default: home", "default: by_thread")
    policy = read_policy(written(tmp_path, text))
    assert (policy.rules[0].device, policy.default) == (BY_STREAM, BY_THREAD)
    ffi, text = records.header("policy.h")
    record: Any = ffi.from_buffer("struct tsr_policy *", compile_table(policy, ["socket"]))
    table = record.tables[record.generation % 2]
    assert f"#define TSR_POLICY_BY_STREAM ({table.rules[0].device})" in text
    assert f"#define TSR_POLICY_BY_THREAD ({table.default_device})" in text


def test_what_a_device_may_be_is_said(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        read_policy(written(tmp_path, SMALLEST.replace("device: 1", "device: by_streams")))
    assert caught.value.expected == "home, by_stream, by_thread, or a GPU of this policy: 0, 1"


ALL_BY_STREAM = '  - {match: {function: "*"}, device: by_stream}\n'
HEAD = "version: 1\ndevices: {home: 0, executors: [1, 2]}\nrules:\n"


@pytest.mark.parametrize(
    ("rules", "used"),
    [
        ("", {0}),
        ("  - {match: {function: a}, device: 1}\n", {0, 1}),
        ('  - {match: {function: "*"}, device: 1}\n', {1}),
        ('  - {match: {function: "*"}, device: 1}\n  - {match: {function: a}, device: 2}\n', {1}),
        ("  - {match: {function: a, share: 0}, device: 2}\n", {0}),
        ("  - {match: {function: a}, device: by_thread}\n", {0, 1, 2}),
        (ALL_BY_STREAM, {0, 1, 2}),
        ('  - {match: {function: "*"}, device: 1}\ndefault: by_stream\n', {1}),
        ("  - {match: {function: a}, device: 1}\ndefault: 1\n", {1}),
    ],
)
def test_which_gpus_launches_use(rules: str, used: set[int], tmp_path: Path) -> None:
    file = written(tmp_path, (HEAD + rules) if rules else HEAD.replace("rules:\n", ""))
    assert used_gpus(read_policy(file)) == used
    assert read_policy(file).memory_place == (COPIES if len(used) > 1 else FOLLOW)
    file.write_text(file.read_text() + "memory: {place: home}\n")
    assert read_policy(file).memory_place == 0


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ("", ""),
        ("verify: 0\n", ""),
        ("verify: 5\n", ""),
        ("disassemble: none\n", "no machine code may be disassembled"),
        ("disassemble: all\n", ""),
    ],
)
def test_what_keeps_gpus_from_copies(more: str, why: str, tmp_path: Path) -> None:
    policy = read_policy(written(tmp_path, HEAD + ALL_BY_STREAM + more))
    assert (policy.memory_place, policy.why_no_copies) == (FOLLOW if why else COPIES, why)
    assert explain_memory(policy).endswith(f"; GPUs have no copies of it: {why}" if why else "its launches use")
    without = with_usual_memory(replace(policy, disassemble=Consent.OPEN), "of this run")
    assert (without.memory_place, without.why_no_copies) == (FOLLOW, "of this run")
    again = with_usual_memory(without)
    assert (again.memory_place, again.why_no_copies) == (COPIES, "")
    said = read_policy(written(tmp_path, HEAD + ALL_BY_STREAM + more + "memory: {place: copies}\n"))
    assert with_usual_memory(said, "of this run") == said
    assert (said.memory_place, said.why_no_copies) == (COPIES, "")


EVERYTHING = """version: 1
devices:
  home: 2
  executors:
    - 0
    - {gpu: 1, sm_limit: 48, memory_limit: 20GiB}
rules:
  - match:
      function: "*gemm*"
      function_regex: "^(sm90|ampere)_"
      module: "libcublasLt*"
      process: "python*"
      library_call: "cublas*Gemm*"
      grid: {blocks: ">= 128", threads: 1..65536, block_threads: "== 256"}
      stream: 3
      nth: {every: 4, offset: 1}
      share: {fraction: 0.25, seed: 7}
    device: 1
  - match: {stream: default, nth: 2, share: 0.5, grid: {blocks: < 8}}
    device: 0
default: 2
verify: {every: 100, memory_limit: 8GiB}
memory: {place: follow, move_after: 5}
log: decisions
disassemble: none
analysis: {observed: use}
"""


def test_data_order_has_copies_of_memory(tmp_path: Path) -> None:
    policy = read_policy(written(tmp_path, SMALLEST + "order: data\n"))
    assert (policy.order, policy.memory_place) == (Order.DATA, COPIES)
    with pytest.raises(ConfigError, match="keep stream order"):
        read_policy(written(tmp_path, SMALLEST + "order: data\nmemory: {place: home}\n"))
    plain = read_policy(written(tmp_path, SMALLEST))
    assert (plain.order, plain.memory_place, in_order(plain, Order.DATA).memory_place) == (Order.STREAM, FOLLOW, COPIES)
    assert with_usual_memory(in_order(plain, Order.DATA), "of this run").memory_place == COPIES
    assert in_order(policy, Order.STREAM).memory_place == FOLLOW


def test_every_key_is_understood(tmp_path: Path) -> None:
    policy = read_policy(written(tmp_path, EVERYTHING))
    assert policy.executors == (Executor(0), Executor(1, 48, 20 << 30))
    assert (policy.verify, policy.log, policy.default) == (100, Log.DECISIONS, 2)
    assert policy.verify_limit_bytes == 8 << 30
    assert (policy.memory_place, policy.move_after) == (FOLLOW, 5)
    assert policy.disassemble is Consent.NONE
    assert policy.use_observed
    assert not read_policy(written(tmp_path, SMALLEST + "analysis: {observed: ignore}\n")).use_observed
    first, second = (rule.match for rule in policy.rules)
    assert first == Match(
        function="*gemm*",
        function_regex="^(sm90|ampere)_",
        module="libcublasLt*",
        process="python*",
        library_call="cublas*Gemm*",
        blocks=Interval(128, 2**64 - 1),
        threads=Interval(1, 65536),
        block_threads=Interval(256, 256),
        stream=3,
        nth=Nth(4, 1),
        share=Share(0.25, 7),
    )
    assert second == Match(stream=0, nth=Nth(0, 2), share=Share(0.5), blocks=Interval(0, 7))


def matching(match: str) -> str:
    return SMALLEST.replace('{function: "*"}', match)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (matching('{funktion: "*"}'), 4, "unknown key 'funktion', did you mean 'function'?"),
        (matching("{}"), 4, "nothing to match"),
        (matching('{function: "vector_[*"}'), 4, "the bracket in 'vector_[*' is never closed"),
        (matching('{module: "a[]b"}'), 4, "the bracket in 'a[]b' is never closed"),
        (matching('{process: "[!]"}'), 4, "the bracket in '[!]' is never closed"),
        (matching('{library_call: "cublas[S"}'), 4, "the bracket in 'cublas[S' is never closed"),
        (matching('{function_regex: "(a"}'), 4, "Unmatched"),
        (matching(r"{function_regex: '(a)\1'}"), 4, "back references"),
        (matching('{function_regex: "((a{99}){99})"}'), 4, "unfold to 9901 items"),
        (matching("{function_regex: '" + "(" * 60 + "a" + ")+" * 60 + "'}"), 4, "items, more than"),
        (matching("{function_regex: '(" + "[^a]?" * 45 + "){1000}'}"), 4, "items, more than"),
        (matching('{grid: {blocks: "~ 3"}}'), 4, "'~ 3' is not a comparison"),
        (matching('{grid: {blocks: "9..3"}}'), 4, "no number is '9..3'"),
        (matching('{grid: {blocks: "< 0"}}'), 4, "no number is '< 0'"),
        (matching("{library_call: cublasGemEx}"), 4, "no library call is 'cublasGemEx', did you mean 'cublasGemmEx'?"),
        (matching("{grid: {}}"), 4, "nothing to compare"),
        (matching("{stream: 0}"), 4, "'0' is not a stream"),
        (matching("{nth: 0}"), 4, "'0' is not usable here"),
        (matching("{nth: {offset: 1}}"), 4, "'every' is missing"),
        (matching("{nth: {every: 2, offset: 2}}"), 4, "no launch has 2 left over 2"),
        (matching("{share: 1.5}"), 4, "'1.5' is not usable here"),
        (matching("{share: {seed: 1}}"), 4, "'fraction' is missing"),
        (SMALLEST.replace("[1]", "[{gpu: 1, memory_limit: 20 parsecs}]"), 2, "'20 parsecs' is not an amount of memory"),
        (SMALLEST.replace("[1]", "[{sm_limit: 4}]"), 2, "does not say which GPU"),
        (SMALLEST + "verify: often\n", 7, "'often' is not usable here"),
        (SMALLEST + "log: all\n", 7, "'all' is not known"),
    ],
)
def test_a_mistake_in_a_condition_is_named_with_its_line(tmp_path: Path, text: str, line: int, message: str) -> None:
    test_a_mistake_is_named_with_its_line(tmp_path, text, line, message)


def table_of(policy: Policy) -> tuple[Any, Any]:
    """The decision table as a record, and the buffer that holds it."""
    ffi, _ = records.header("policy.h")
    buffer = bytearray(compile_table(policy, [f"socket-{executor.device}" for executor in policy.executors]))
    return ffi.from_buffer("struct tsr_policy *", buffer), buffer


def text_of(table: Any, place: int) -> str:
    ffi, _ = records.header("policy.h")
    return bytes(ffi.buffer(table.text))[place:].split(b"\0")[0].decode()


def test_a_pool(tmp_path: Path) -> None:
    policy = read_policy(written(tmp_path, SMALLEST + "memory: {pool: true, reserve: 512MiB}\n"))
    assert (policy.memory_place, policy.pool, policy.reserve_bytes) == (COPIES, True, 512 << 20)
    record, _ = table_of(policy)
    assert (record.memory_pool, record.memory_reserve_bytes) == (1, 512 << 20)
    assert pooled(policy, None) == policy
    assert pooled(policy, 1 << 30).reserve_bytes == 1 << 30
    plain = read_policy(written(tmp_path, SMALLEST))
    assert not plain.pool
    assert pooled(plain, None).reserve_bytes == 2 << 30
    with pytest.raises(ConfigError, match="copies of what others own"):
        pooled(read_policy(written(tmp_path, SMALLEST + "memory: {place: home}\n")), None)


def test_the_table_holds_what_the_policy_says(tmp_path: Path) -> None:
    record, buffer = table_of(read_policy(written(tmp_path, EVERYTHING)))
    ffi, text = records.header("policy.h")
    assert record.magic == records.constant(text, "TSR_POLICY_MAGIC", "policy.h")
    assert record.bytes == len(buffer) == ffi.sizeof("struct tsr_policy")
    assert (record.home, record.executor_count, record.generation) == (2, 2, 1)
    assert (record.memory_place, record.memory_first, record.memory_move_after) == (FOLLOW, 2, 5)
    assert ffi.string(record.executors[1].socket) == b"socket-1"
    executor = record.executors[1]
    assert (executor.device, executor.sm_limit, executor.memory_limit_bytes) == (1, 48, 20 << 30)
    table = record.tables[1]
    assert (table.rule_count, table.default_device, table.verify_every, table.log_decisions) == (2, 2, 100, 1)
    assert table.verify_limit_bytes == 8 << 30
    first, second = table.rules[0], table.rules[1]
    bits = ffi.typeof("enum tsr_policy_condition").relements
    assert first.conditions == sum(bits.values())
    assert (first.device, first.line, second.device, second.line) == (1, 8, 0, 19)
    assert [
        text_of(table, getattr(first, name))
        for name in ("function", "function_regex", "module", "process", "library_call")
    ] == [
        "*gemm*",
        "^(sm90|ampere)_",
        "libcublasLt*",
        "python*",
        "cublas*Gemm*",
    ]
    assert list(first.blocks) == [128, 2**64 - 1]
    assert list(first.threads) == [1, 65536]
    assert list(first.block_threads) == [256, 256]
    assert (first.stream, first.nth_every, first.nth_offset, first.share, first.seed) == (3, 4, 1, 2**62, 7)
    absent = ("FUNCTION", "FUNCTION_REGEX", "MODULE", "PROCESS", "LIBRARY_CALL", "THREADS", "BLOCK_THREADS")
    assert second.conditions == sum(bits.values()) - sum(bits[f"TSR_POLICY_{name}"] for name in absent)
    assert (second.stream, second.nth_every, second.nth_offset, second.share) == (0, 0, 2, 2**63)


@pytest.mark.parametrize(
    ("rules", "first"),
    [
        ('[{match: {function: "*"}, device: 1}]', 1),
        ('[{match: {function: "a*"}, device: 1}]', 0),
        ('[{match: {function: "a*"}, device: home}, {match: {share: 1}, device: 1}]', 1),
        ("[{match: {nth: {every: 2}}, device: 1}]", 0),
    ],
)
def test_memory_begins_where_launches_without_conditions_run(tmp_path: Path, rules: str, first: int) -> None:
    policy = read_policy(written(tmp_path, f"version: 1\ndevices: {{executors: [1]}}\nrules: {rules}\n"))
    assert table_of(policy)[0].memory_first == first


@pytest.mark.parametrize(("place", "gpu"), [("home", 0), ("0", 0), ("1", 1), ("follow", FOLLOW)])
def test_places_of_memory(tmp_path: Path, place: str, gpu: int) -> None:
    policy = read_policy(written(tmp_path, f"{SMALLEST}memory: {{place: {place}}}\n"))
    assert table_of(policy)[0].memory_place == policy.memory_place == gpu


def test_other_rules_are_the_next_generation(tmp_path: Path) -> None:
    record, buffer = table_of(read_policy(written(tmp_path, SMALLEST)))
    other = read_policy(written(tmp_path, matching('{function: "other"}')))
    assert [replace_rules(buffer, other) for _ in range(3)] == [2, 3, 4]
    assert record.generation == 4
    assert text_of(record.tables[0], record.tables[0].rules[0].function) == "other"
    record.generation = 2**32 - 1
    assert replace_rules(buffer, other) == 2
    assert text_of(record.tables[0], record.tables[0].rules[0].function) == "other"


def test_the_whole_share_is_no_condition(tmp_path: Path) -> None:
    record, _ = table_of(read_policy(written(tmp_path, matching("{share: 1}"))))
    assert record.tables[1].rules[0].conditions == 0


def test_the_schema_describes_every_key() -> None:
    def check(part: schema.Json) -> None:
        if isinstance(part, dict) and isinstance(part.get("properties"), dict):
            properties = part["properties"]
            assert isinstance(properties, dict)
            for key, value in properties.items():
                assert isinstance(value, dict), key
                assert value.get("description"), key
        for value in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
            check(value)

    check(schema.SCHEMA)


def test_a_policy_may_name_all_gpus_that_the_counters_have_places_for() -> None:
    assert records.most_gpus() == GPUS


def test_counters_are_read_back_by_gpu_and_reason(tmp_path: Path) -> None:
    policy = read_policy(written(tmp_path, SMALLEST))
    record, buffer = table_of(policy)
    first, second = record.counts[0].launches, record.counts[9].launches  # of two threads
    first[0], second[0], first[7] = 1, 2, 5
    first[1], second[1] = 4, 2**64 - 4  # what one counted the other took back
    record.counts[2].kept_reasons[1], record.counts[3].kept_reasons[1] = 1, 2
    record.counts[2].copies[1], record.counts[15].copies[1] = 3, 1
    record.created_bytes[1], record.moved, record.moved_bytes = 4096, 2, 8192
    launches = read_launches(policy, bytes(buffer))
    assert launches.by_device == {0: 3, 1: 0, 7: 5}
    assert (launches.created_bytes, launches.moved, launches.moved_bytes) == ({1: 4096}, 2, 8192)
    assert launches.kept_home == 3
    assert launches.kept_reasons == {"capture": 3}
    assert launches.copies == {1: 4}


@pytest.mark.parametrize("glob", ["a[]]b", "a[!]x]", "[[:alpha:]_]*", r"a\[", "a]", "[a-z][0-9]", r"[\]]"])
def test_globs_whose_brackets_are_closed_are_taken(tmp_path: Path, glob: str) -> None:
    policy = read_policy(written(tmp_path, matching(f"{{function: '{glob}'}}")))
    assert policy.rules[0].match.function == glob


def test_rules_are_counted_and_begin_anew_with_an_edit(tmp_path: Path) -> None:
    policy = read_policy(written(tmp_path, SMALLEST))
    record, buffer = table_of(policy)
    line = policy.rules[0].line
    record.counts[0].rule_launches[1][0], record.counts[15].rule_launches[1][0] = 2, 3
    assert read_launches(policy, bytes(buffer)).rules == (RuleUse(line, 5),)
    record.counts[3].rule_launches[0][0] = 7  # of rules that were replaced
    other = read_policy(written(tmp_path, matching('{function: "sclae*"}')))
    replace_rules(buffer, other)
    names = ("_Z5scalePf", "copy", "_ZN2at5scaleIfEEvPT_")
    record.function_count = len(names)
    for place, name in enumerate(names):
        record.functions[place] = name.encode()
    nearest = ("scale", "at::scale<float>")
    assert read_launches(policy, bytes(buffer)).rules == (RuleUse(other.rules[0].line, 0, nearest),)


def test_the_reference_lists_every_key() -> None:
    root = Path(__file__).parents[2]
    command = [sys.executable, str(root / "scripts" / "gen"), "policy-reference", "--check"]
    assert subprocess.run(command, check=False).returncode == 0, "run scripts/gen policy-reference"


@pytest.mark.parametrize("number", [0, 1])
def test_the_policies_of_the_documentation_are_good(number: int, tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "policies.md").read_text()
    text = page.split("```yaml\n")[number + 1].split("```")[0]
    assert read_policy(written(tmp_path, text)).rules
