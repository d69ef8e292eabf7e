"""The official Delta and Iceberg jars, Hadoop's for S3, and what they need, fetched once into a cache outside
the repository.

The cache is ``$DELVEC_CACHE``, by default ``~/.cache/delvec``. Spark's own resolver fetches the jars;
where it cannot, Maven is tried, which may know a mirror that Spark does not. ``python tests/jars.py``
fetches ahead of the tests.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

FETCH_SECONDS = 600

# The home is set aside because a Maven cache there that has a pom but not its jar fails Spark's resolver.
_SESSION = """
import sys
from pyspark.sql import SparkSession
SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false") \\
    .config("spark.driver.extraJavaOptions", "-Duser.home=" + sys.argv[1]) \\
    .config("spark.jars.ivy", sys.argv[1]).config("spark.jars.packages", sys.argv[2]).getOrCreate().stop()
"""

_POM = """<project><modelVersion>4.0.0</modelVersion>
<groupId>delvec</groupId><artifactId>jars</artifactId><version>1</version><packaging>pom</packaging>
<dependencies><dependency>
<groupId>{group}</groupId><artifactId>{artifact}</artifactId><version>{version}</version>
</dependency></dependencies></project>
"""


@dataclass(frozen=True)
class Package:
    group: str
    artifact: str
    version: str

    def __str__(self) -> str:
        return f"{self.group}:{self.artifact}:{self.version}"

    @property
    def name(self) -> str:
        return f"{self.artifact}-{self.version}"

    @property
    def pom(self) -> str:
        return _POM.format(group=self.group, artifact=self.artifact, version=self.version)


DELTA = Package("io.delta", "delta-spark_4.1_2.13", "4.4.0")
ICEBERG = Package("org.apache.iceberg", "iceberg-spark-runtime-4.1_2.13", "1.12.0")


# Iceberg's reference REST catalog, and a server for it. The first group comes without its dependencies.
_REST_BARE = (
    "org.apache.iceberg:iceberg-open-api:1.11.0:test-fixtures",
    "org.apache.iceberg:iceberg-core:1.11.0:tests",
)
_REST = (
    "org.apache.iceberg:iceberg-core:1.11.0",
    "org.apache.hadoop:hadoop-client-api:3.4.2",
    "org.apache.hadoop:hadoop-client-runtime:3.4.2",
    "org.xerial:sqlite-jdbc:3.50.3.0",
    "org.slf4j:slf4j-simple:2.0.17",
    "org.eclipse.jetty.ee10:jetty-ee10-servlet:12.1.2",
    "org.eclipse.jetty.compression:jetty-compression-server:12.1.2",
    "org.eclipse.jetty.compression:jetty-compression-gzip:12.1.2",
)
_EXCLUDE_ALL = (
    "<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
)


class JarsUnavailableError(Exception):
    """The jars are not in the cache and cannot be fetched; the message says why."""


def cache() -> Path:
    """The folder for what is fetched or generated, never part of the repository."""
    return Path(os.environ.get("DELVEC_CACHE") or Path.home() / ".cache" / "delvec")


def delta_jars() -> list[Path]:
    """The Delta jar and those of its dependencies that PySpark does not bring itself."""
    return _jars(DELTA)


def iceberg_jars() -> list[Path]:
    """The Iceberg jar, which holds what it needs."""
    return _jars(ICEBERG)


def s3a_jars() -> list[Path]:
    """Hadoop's ``s3a`` file system, of the Hadoop that PySpark brings, and the AWS SDK: 650 MB."""
    (client,) = _spark_jars().glob("hadoop-client-api-*.jar")
    version = client.stem.removeprefix("hadoop-client-api-")
    return _jars(Package("org.apache.hadoop", "hadoop-aws", version))


def rest_catalog_jars() -> list[Path]:
    """Iceberg's reference REST catalog with all it needs: 41 jars, 84 MB. Maven alone can fetch them."""
    folder = cache() / "jars" / "iceberg-rest-catalog-1.11.0"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            if shutil.which("mvn") is None:
                raise JarsUnavailableError("Iceberg's REST catalog cannot be fetched: Maven is absent")
            with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
                pom, jars = Path(scratch, "pom.xml"), Path(scratch, "jars")
                bare = [_dependency(name, _EXCLUDE_ALL) for name in _REST_BARE]
                dependencies = "".join([*bare, *map(_dependency, _REST)])
                pom.write_text(re.sub("<dependency>.*</dependency>", dependencies, _POM, flags=re.DOTALL))
                goal = ["dependency:copy-dependencies", "-DincludeScope=runtime"]
                problem = _run(["mvn", "-q", "-B", "-f", str(pom), *goal, f"-DoutputDirectory={jars}"])
                if problem is not None:
                    raise JarsUnavailableError(f"Iceberg's REST catalog cannot be fetched: {problem}")
                jars.rename(folder)
    return sorted(folder.glob("*.jar"))


def sqlite_jars() -> list[Path]:
    """The driver by which Iceberg's JDBC catalog opens SQLite files; none where Maven is absent."""
    try:
        return [jar for jar in rest_catalog_jars() if jar.name.startswith("sqlite-jdbc-")]
    except JarsUnavailableError:
        return []


def _dependency(name: str, more: str = "") -> str:
    group, artifact, version, *classifier = name.split(":")
    tags = [("groupId", group), ("artifactId", artifact), ("version", version)]
    tags += [("classifier", text) for text in classifier]
    return f"<dependency>{''.join(f'<{tag}>{text}</{tag}>' for tag, text in tags)}{more}</dependency>\n"


def _jars(package: Package) -> list[Path]:
    folder = cache() / "jars" / package.name
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (folder.parent / f"{package.name}.lock").open("w") as lock:  # tests run in several processes
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.is_dir():
            with tempfile.TemporaryDirectory(dir=folder.parent) as scratch:
                _keep(_fetched(package, Path(scratch)), folder)
    return sorted(folder.glob("*.jar"))


def _fetched(package: Package, scratch: Path) -> Path:
    """A folder with the jars, by the first way that works."""
    ivy, maven = scratch / "ivy", scratch / "maven"
    problem = _run([sys.executable, "-c", _SESSION, str(ivy), str(package)])
    if problem is None:
        return ivy / "jars"
    if shutil.which("mvn") is None:
        raise JarsUnavailableError(f"Spark cannot fetch {package}: {problem}; Maven is absent")
    maven.mkdir()
    (maven / "pom.xml").write_text(package.pom)
    target = f"-DoutputDirectory={maven / 'jars'}"
    goal = ["dependency:copy-dependencies", "-DincludeScope=runtime"]
    maven_problem = _run(["mvn", "-q", "-B", "-f", str(maven / "pom.xml"), *goal, target])
    if maven_problem is None:
        return maven / "jars"
    raise JarsUnavailableError(f"no way to fetch {package}: Spark: {problem}; Maven: {maven_problem}")


def _run(command: list[str]) -> str | None:
    """Nothing where the command succeeds, else the line that says what went wrong."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=FETCH_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    if done.returncode == 0:
        return None
    lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
    for telling in ("download failed", "unresolved dependency", "ERROR", "Exception", "Error", ""):
        for line in lines:
            if telling in line:
                return line
    return f"exit code {done.returncode}"


def _keep(jars: Path, folder: Path) -> None:
    """Put the jars that PySpark lacks at ``folder``, at once: a half-copied folder is never seen."""
    spark = {_artifact(jar.name) for jar in _spark_jars().glob("*.jar")}
    kept = jars.with_name("kept")
    kept.mkdir()
    for jar in jars.glob("*.jar"):
        if not {_artifact(jar.name), _artifact(jar.name).partition("_")[2]} & spark:
            shutil.copy2(jar, kept / jar.name)
    if not list(kept.glob(f"*{folder.name}.jar")):
        raise JarsUnavailableError(f"what was fetched lacks {folder.name}.jar")
    try:
        kept.rename(folder)
    except OSError:
        if not folder.is_dir():
            raise


def _spark_jars() -> Path:
    import pyspark

    return Path(pyspark.__file__).parent / "jars"


def _artifact(name: str) -> str:
    """A jar's name without its version; Spark's resolver puts the group and ``_`` in front."""
    return re.sub(r"-\d[\w.-]*\.jar$", "", name)


if __name__ == "__main__":
    for path in delta_jars() + iceberg_jars() + s3a_jars() + rest_catalog_jars():
        sys.stdout.write(f"{path}\n")
