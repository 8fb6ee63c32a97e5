"""Plain scripts as applications: what goes along with one, what of it cannot work, and what decides that it is new."""

from __future__ import annotations

import ast
from pathlib import Path

import attrs
import pytest

from airflow_provider_streamupdate.control.drivers.launch_files import located
from airflow_provider_streamupdate.control.operations.context import Context
from airflow_provider_streamupdate.control.operations.version import copy_application
from airflow_provider_streamupdate.control.update.inheritance import inherit, resolve
from airflow_provider_streamupdate.control.update.options import UpdateOptions
from airflow_provider_streamupdate.core.errors import ApplicationError, InvalidInputError
from airflow_provider_streamupdate.core.registry.application import Application, Script
from airflow_provider_streamupdate.core.registry.hiding import Hiding
from airflow_provider_streamupdate.core.registry.own_files import own_files
from airflow_provider_streamupdate.core.registry.registry import Registry
from airflow_provider_streamupdate.core.registry.script_checks import check_script
from airflow_provider_streamupdate.core.storage import Folder

from .builders import deploy

QUERY = 'spark.readStream.load().writeStream.queryName("q")'


def files(folder: Path, **texts: str) -> Path:
    """Write files, whose names have ``__`` for ``/`` and ``_`` before the ending."""
    for name, text in texts.items():
        path = folder / ".".join(name.replace("__", "/").rsplit("_", 1))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder / "job.py"


def test_own_modules_and_named_files_go_along(tmp_path: Path) -> None:
    job = files(
        tmp_path,
        job_py="import config, json, paths\nfrom lib.a import x\nopen('conf/app.json')\nfar = '" + "я" * 150 + "'\n",
        config_py="from helpers import trim\n",
        src__helpers_py="",
        lib__a_py="from . import b\nfrom .deep.c import d\n",
        lib__b_py="SCHEMA = 'schema.txt'\n",
        lib__schema_txt="k string",
        paths_py="HERE = dir(__file__); HERE.glob('jobs/sql/*.sql'); HERE / 'jobs/env' / name\n",
        lib__deep__c_py="",
        conf__app_json="{}",
        jobs__sql__one_sql="select 1",
        jobs__env__deep__prod_json="{}",
        unused_py="",
        other_json="{}",
    )
    (tmp_path / "lib" / "__init__.py").write_text("")
    assert own_files(job) == [
        *("conf/app.json", "config.py", "jobs/env/deep/prod.json", "jobs/sql/one.sql"),
        *("lib/__init__.py", "lib/a.py", "lib/b.py", "lib/deep/c.py", "lib/schema.txt", "paths.py", "src/helpers.py"),
    ]


def test_what_it_finds_beside_itself_goes_along(tmp_path: Path) -> None:
    """It was missing from the copy: a pattern and a folder of plugins found nothing there, silently, and of what is
    not Spark's ``load`` or ``option`` the newest was read."""
    text = "HERE = os.path.dirname(__file__)\nopen(HERE + '/a.json')\nopen(f'{HERE}/b.json')\nglob(HERE + '/q?.sql')\n"
    text += "pkgutil.iter_modules([os.path.join(HERE, 'plugins')])\n"
    read = "import toml, click\ntoml.load('c.toml')\nload('d.json')\n@click.option('--conf', default='e.yml')\n"
    texts = dict.fromkeys(("a_json", "b_json", "q1_sql", "c_toml", "d_json", "e_yml", "plugins__one_py", "no_py"), "")
    job = files(tmp_path, job_py=text + read + "def main(conf):\n    print('no.py', count('*'))\n", **texts)
    there = {"a.json", "b.json", "q1.sql", "c.toml", "d.json", "e.yml", "plugins/one.py"}
    assert {*own_files(job)} == there


def test_what_it_finds_in_all_folders_goes_along(tmp_path: Path) -> None:
    texts = dict.fromkeys(("top_sql", "rules__more__deep_sql", "data__0_json", "rules__notes_txt"), "")
    found = "HERE = Path(__file__).parent\nsql = HERE.rglob('*.sql')\n"
    job = files(tmp_path, job_py=found, **texts)
    assert own_files(job) == ["rules/more/deep.sql", "top.sql"]
    job.write_text(found + "all = (HERE / 'rules').rglob('*')\n")
    assert own_files(job) == ["rules/more/deep.sql", "rules/notes.txt", "top.sql"]


def test_data_is_no_part_of_a_version(tmp_path: Path) -> None:
    """Else each new file of its input would make another version of a script that lies beside it."""
    spark = "spark.readStream.json('in')\nrows.writeStream.start('out')\nopen('total.json', 'w')\nx = 'more/*.json'\n"
    beside = {"in__0_json": "{}", "out__0_json": "{}", "total_json": "1", "job_log": "", "more__0_json": "{}"}
    job = files(tmp_path, job_py=spark + "open('total.json')\nlog('job.log')\nopen('a.json')\n", a_json="", **beside)
    assert own_files(job) == ["a.json"]


def test_large_data_beside_a_script_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = files(tmp_path, job_py="open('data.csv')\n", data_csv="x" * 100)
    monkeypatch.setattr("airflow_provider_streamupdate.core.registry.own_files.MOST_BYTES", 99)
    with pytest.raises(ApplicationError, match=r"have 100 bytes.*keep data elsewhere"):
        own_files(job)


@pytest.mark.parametrize(
    ("text", "line", "told"),
    [
        (f"while True:\n    q = {QUERY}.start()\n    q.awaitTermination()\n", 2, "in a loop that waits for it"),
        (f"a = {QUERY}.start()\na.awaitTermination()\nb = {QUERY}.start()\n", 3, "behind the wait in line 2"),
        (f"a = {QUERY}.start()\na.awaitTermination(9)\nb = {QUERY}.start()\n", 3, "behind the wait in line 2"),
        (f"a = {QUERY}.start()\ntime.sleep(5)\nb = {QUERY}.start()\n", 3, "behind the wait in line 2"),
        (f"a = {QUERY}.start()\nwhile a.isActive:\n    pass\nb = {QUERY}.start()\n", 4, "behind the wait in line 2"),
        (f"def save(df, n):\n    {QUERY}.start()\n{QUERY}.foreachBatch(save).start()\n", 2, "inside a foreachBatch"),
    ],
)
def test_what_cannot_work_is_refused_with_its_line(text: str, line: int, told: str) -> None:
    with pytest.raises(ApplicationError, match=rf"job\.py:{line} starts a query {told}"):
        check_script("job.py", ast.parse(text))


@pytest.mark.parametrize(
    "text",
    [
        f"for t in tables:\n    {QUERY}.start()\nspark.streams.awaitAnyTermination()\n",
        f"q = {QUERY}.start()\nwhile not q.awaitTermination(10):\n    print(q.lastProgress)\n",
        f"def run():\n    {QUERY}.start().awaitTermination()\n\nif __name__ == '__main__':\n    run()\n",
        f"try:\n    {QUERY}.start().awaitTermination()\nfinally:\n    spark.stop()\n",
        f"time.sleep(10)\na = {QUERY}.start()\nb = {QUERY}.start()\na.awaitTermination()\n",  # for Kafka to be up
        # what the run has to tell: a branch, an early return, a look, a column of this name
        f"if a:\n    {QUERY}.start().awaitTermination()\nif b:\n    {QUERY}.start().awaitTermination()\n",
        f"if a:\n    {QUERY}.start().awaitTermination()\n    sys.exit()\n{QUERY}.start()\n",
        f"a = {QUERY}.start()\nprint(a.isActive)\nb = {QUERY}.start()\n",
        f"live = users.filter(users.isActive)\n{QUERY}.start()\n{QUERY}.start()\n",
        "import threading\nt = threading.Thread(target=f)\nt.start()\nq.awaitTermination()\nt.start()\n",
    ],
)
def test_what_can_work_is_let_through(text: str) -> None:
    check_script("job.py", ast.parse(text))


def test_a_script_that_is_not_given_as_one_is_refused(tmp_path: Path) -> None:
    """Its driver would write where the script writes."""
    job = files(tmp_path, job_py=f"q = {QUERY}.start()\nq.awaitTermination()\n")
    with pytest.raises(ApplicationError, match=r"job\.py:1 starts a query, and .* \(--app NAME, "):
        Application(file=str(job)).check()
    application(job).check()
    # It ran on its own checkpoint, into its sinks, where `plan` or `update` was to plan it.
    texts = {"lib__run_py": "def run(rows):\n    w = rows.writeStream\n    return w.start('out')\n"}
    main = files(tmp_path, job_py="from lib.run import run\nrun(rows).awaitTermination()\n", **texts)
    with pytest.raises(ApplicationError, match=r"lib/run\.py:3 starts a query, and .* \(--app NAME, "):
        Application(file=str(main)).check()
    wrong = f"from x import StreamingApp\napp = StreamingApp('a')\ndef q(spark, p):\n    return {QUERY}.start()\n"
    Application(file=str(files(tmp_path, job_py=wrong))).check()  # the driver says what is wrong
    with pytest.raises(ApplicationError, match=r"job\.py defines a StreamingApp, .* leave out --app"):
        application(job).check()


def application(file: Path, *arguments: str, **more: str) -> Application:
    return Application(file=str(file), script=Script(app="clicks", arguments=arguments), **more)


def test_what_makes_a_new_version(tmp_path: Path) -> None:
    job = files(tmp_path, job_py="import helper\n", helper_py="LIMIT = 1\n")
    first = application(job, "--limit", "1")
    first.check()
    assert first.digest() == application(job, "--limit", "1").digest() != application(job, "--limit", "2").digest()
    before = first.digest()
    files(tmp_path, helper_py="LIMIT = 2\n")
    assert first.digest() != before
    with pytest.raises(InvalidInputError):
        attrs.evolve(first, script=Script(app="")).check()
    with pytest.raises(ApplicationError, match="seen_batch of query q is 'what'"):
        attrs.evolve(first, script=Script(app="clicks", seen_batch={"q": "what"})).check()


def test_arguments_that_are_not_given_are_those_of_the_running_version(tmp_path: Path) -> None:
    job = files(tmp_path, job_py="")
    running = Application(
        file=str(job), script=Script(app="clicks", arguments=("--in", "/x"), seen_batch={"q": "adds"})
    )
    kept = inherit(running, application(job)).script
    assert kept == running.script
    # What it names by a relative path stays where it is, wherever it is updated from.
    assert running.script is not None
    there = attrs.evolve(running, script=attrs.evolve(running.script, folder=str(tmp_path)))
    elsewhere = attrs.evolve(application(job), script=Script(app="clicks", folder=f"{job}/elsewhere"))
    moved = inherit(there, elsewhere)
    assert moved.script == there.script
    assert moved.working_folder(Path("own")) == tmp_path and elsewhere.working_folder(Path("own")) == Path("own")
    # A checkout that is gone is made again: relative results go on where they were.
    gone = attrs.evolve(moved, script=Script(app="clicks", folder=str(tmp_path / "gone")))
    assert gone.working_folder(Path("own")) == tmp_path / "gone" and (tmp_path / "gone").is_dir()
    changed = inherit(running, application(job, "--in", "/y")).script
    assert changed is not None and changed.arguments == ("--in", "/y") and changed.seen_batch == {"q": "adds"}
    # Of a StreamingApp that becomes a script its parameters are nothing.
    app = Application(file=str(job), params={"input": "/x"})
    assert inherit(app, application(job, "--in", "/y")).params == {} and inherit(running, app).script is None


def test_a_release_goes_on_where_the_running_version_works(tmp_path: Path) -> None:
    """It takes nothing over (reset). Its relative results went into another folder at each update before."""
    registry = Registry(str(tmp_path / "root"))
    running = Application(file="application/job.py", script=Script(app="clicks", folder="/work/dir"))
    deploy(registry.app("clicks"), application=running)
    given = UpdateOptions(application=application(files(tmp_path, job_py=""), "--in", "/y"), reset=True)
    script = resolve(Context(registry=registry, root=registry.root), given, "clicks").application.script
    assert script is not None and (script.folder, script.arguments) == ("/work/dir", ("--in", "/y"))


def test_its_own_files_are_its_own_wherever_it_comes_from(tmp_path: Path) -> None:
    """A version from another checkout read the first one's configuration, and a hot standby the newest one's."""
    job = files(tmp_path / "checkout-1", job_py="open('app.json')", app_json="1")
    here = attrs.evolve(application(job), script=Script(app="clicks", folder=str(job.parent)))
    first = copy_application(here, Folder.scratch(tmp_path / "one"))
    assert first.script is not None and first.script.in_folder
    copied = copy_application(located(first, tmp_path / "one"), Folder.scratch(tmp_path / "standby"))
    assert copied.script == first.script
    later = files(tmp_path / "checkout-2", job_py="open('app.json')", app_json="2")
    given = attrs.evolve(application(later), script=Script(app="clicks", folder=str(later.parent)))
    second = copy_application(inherit(first, given), Folder.scratch(tmp_path / "two"))
    assert second.script == first.script
    registry = Registry(str(tmp_path / "root"))
    deploy(registry.app("clicks"), application=first)
    options = UpdateOptions(application=given, reset=True)
    assert resolve(Context(registry=registry, root=registry.root), options, "clicks").application.script == first.script


def test_secrets_among_arguments_are_hidden(tmp_path: Path) -> None:
    given = application(tmp_path / "job.py", "--password", "s3cr3t-1", "--api-token=s3cr3t-2", "--topic", "clicks")
    hiding = Hiding.of_applications([given])
    assert hiding.text("login with s3cr3t-1 or s3cr3t-2 failed for clicks").count("s3cr3t") == 0
    shown = hiding.application(given).script
    assert shown is not None and "s3cr3t" not in str(shown.arguments) and "clicks" in shown.arguments
