"""What local ensembles raise."""


class LocalClusterError(Exception):
    """Reports that local ensembles could not be started or reached. The message says why and what to do."""


class AlreadyRunningError(LocalClusterError):
    """Reports that a cluster runs in the folder, or is being started or stopped there."""
