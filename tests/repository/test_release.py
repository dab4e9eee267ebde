""".ci/release, with git and gpg, on a small repository whose build is a stand-in."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import textwrap
import unittest
from pathlib import Path

from bench import ROOT

FILES = {
    "parkazoo/version.py": '__version__ = "0.1.0"\n',
    "pyproject.toml": "[project.urls]\n",
    "README.md": "It is on an index.\n",
    "CHANGELOG.md": "## 0.1.0, 2026-11-30\n",
    ".gitignore": ".venv/\nbuild/\ndist/\n",
    "Makefile": ".venv/has-release:\n\t@true\n",
}
# In place of Python: makes the wheel, and the environment that the wheel is tried in.
PYTHON = """\
#!/bin/sh -e
case "$*" in
  "-m build --outdir "*) mkdir -p "$4"; echo a >"$4/parkazoo-0.1.0.whl" ;;
  "-m venv "*) mkdir -p "$3/bin"; cp "$0" "$3/bin/python"; cp "$0" "$3/bin/pip" ;;
esac
"""
FAILING = '#!/bin/sh\nfor each; do [ $each != {0} ] || exit 1; done\nexec /usr/bin/{1} "$@"\n'
TAG = "v0.1.0"
OWN, OTHER = "Own <own@example>", "Other <other@example>"


@unittest.skipUnless(shutil.which("gpg"), "there is no gpg")
class TestRelease(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory(prefix="pk-", dir="/tmp")  # the path of gpg's socket must be short
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        self.checkout, self.tools, keys = (self.folder / each for each in ("checkout", "tools", "keys"))
        self.tools.mkdir()
        keys.mkdir(mode=0o700)
        self.environment = {
            "PATH": f"{self.tools}:{os.environ['PATH']}",
            "HOME": str(self.folder),
            "GNUPGHOME": str(keys),
            "GIT_CONFIG_NOSYSTEM": "1",
            "LC_ALL": "C",
        }
        self.addCleanup(self.run_tool, "gpgconf", "--kill", "all")
        for path, text in {**FILES, ".ci/release": (ROOT / ".ci" / "release").read_text()}.items():
            self.write(self.checkout / path, text)
        self.write(self.checkout / ".venv" / "bin" / "python", PYTHON)
        self.git("init", "--quiet", "--initial-branch=main")
        name, address = OWN.split()
        self.git("config", "user.name", name)
        self.git("config", "user.email", address.strip("<>"))
        self.commit()

    def write(self, path: Path, text: str) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def run_tool(self, *command: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command, cwd=self.checkout, env=self.environment, capture_output=True, text=True, check=False
        )

    def git(self, *arguments: str) -> str:
        done = self.run_tool("git", *arguments)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.strip()

    def commit(self) -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--message", "all")

    def make_key(self, owner: str) -> None:
        made = self.run_tool("gpg", "--batch", "--passphrase", "", "--quick-gen-key", owner, "ed25519", "sign")
        self.assertEqual(made.returncode, 0, made.stderr)

    def release(self, *arguments: str) -> tuple[int, str]:
        done = self.run_tool(".ci/release", *arguments)
        return done.returncode, done.stderr.strip() if done.returncode else done.stdout

    def assert_nothing_done(self) -> None:
        self.assertEqual(self.git("tag"), "")
        self.assertEqual((self.checkout / "dist" / "of-before").read_text(), "")
        self.assertFalse((self.checkout / "build" / "dist.new").exists())

    def test_one_key(self) -> None:
        """The committer's, though gpg has another one for its default."""
        for owner in (OTHER, OWN):
            self.make_key(owner)
        self.git("config", "gpg.format", "ssh")
        status, said = self.release()
        self.assertEqual(status, 0, said)
        self.assertIn("git push --follow-tags", said)
        signed = self.run_tool("gpg", "--verify", "dist/SHA256SUMS.asc", "dist/SHA256SUMS").stderr
        tag = self.run_tool("git", "-c", "gpg.format=openpgp", "verify-tag", TAG).stderr
        for told in (signed, tag):
            self.assertIn(f'Good signature from "{OWN}"', told)
        self.assertEqual(self.run_tool("sh", "-c", "cd dist && sha256sum -c SHA256SUMS").returncode, 0)
        status, said = self.release()
        self.assertEqual((status, f"There is a tag {TAG}: name a new version" in said), (1, True), said)

    def test_a_key_that_is_named(self) -> None:
        for owner in (OWN, OTHER):
            self.make_key(owner)
        self.git("config", "user.signingkey", OTHER)
        status, said = self.release()
        self.assertEqual(status, 0, said)
        for told in (
            self.run_tool("gpg", "--verify", "dist/SHA256SUMS.asc").stderr,
            self.run_tool("git", "verify-tag", TAG).stderr,
        ):
            self.assertIn(f'Good signature from "{OTHER}"', told)

    def test_it_fails_at_any_point(self) -> None:
        self.make_key(OWN)
        self.write(self.checkout / "dist" / "of-before", "")
        for tool, argument in (("git", "clone"), ("gpg", "--detach-sign"), ("git", "tag"), ("rm", "dist")):
            with self.subTest(f"{tool} {argument}"):
                self.write(self.tools / tool, FAILING.format(argument, tool))
                self.assertNotEqual(self.release()[0], 0)
                (self.tools / tool).unlink()
                self.assert_nothing_done()

    def test_what_it_refuses(self) -> None:
        self.write(self.checkout / "dist" / "of-before", "")
        cases = {
            "CHANGELOG.md": ("## 0.1.0, not released yet\n", "has no heading '## 0.1.0, "),
            "README.md": ("No package index has it yet.\n", "name the index"),
            "pyproject.toml": ("# [project.urls]\n", "Fill in [project.urls]"),
        }
        self.assertIn(f"gpg cannot sign with the key of {OWN}", self.release()[1])
        for path, (text, why) in cases.items():
            self.write(self.checkout / path, text)
            self.assertEqual(self.release(), (1, "There are changes that are not committed."))
            self.commit()
            status, said = self.release()
            self.assertEqual((status, why in said), (1, True), said)
            self.write(self.checkout / path, FILES[path])
            self.commit()
        self.git("checkout", "--quiet", "--detach")
        self.assertEqual(self.release(), (1, "This is not the branch main."))
        self.assertIn("usage", self.release("--now")[1])
        self.assert_nothing_done()

    def test_a_dry_run(self) -> None:
        """Before all that a release needs is there, and without a key."""
        self.write(self.checkout / "README.md", "No package index has it yet.\n")
        self.commit()
        self.git("checkout", "--quiet", "--detach")
        status, said = self.release("--dry-run")
        self.assertEqual(status, 0, textwrap.shorten(said, 500))
        self.assertEqual(self.git("tag"), "")
        self.assertEqual(
            sorted(each.name for each in (self.checkout / "dist").iterdir()), ["SHA256SUMS", "parkazoo-0.1.0.whl"]
        )
