"""Programs in other languages, on their own clients of ZooKeeper, at gateways over three real ensembles.

Each folder has a program. It checks by itself what its calls answer, and takes a lock that all of them share.
"""
