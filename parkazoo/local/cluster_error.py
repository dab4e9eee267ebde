"""What local ensembles raise."""

INSTALL = "pip install 'parkazoo[local]'"


class LocalClusterError(Exception):
    """Local ensembles could not be started or reached. The message says why and what to do."""


class AlreadyRunningError(LocalClusterError):
    """A cluster runs in the folder, or is just being started or stopped there."""
