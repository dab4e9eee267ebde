"""A Kafka broker of the time when Kafka needed ZooKeeper, at a gateway."""

from __future__ import annotations

import subprocess
from pathlib import Path

from parkazoo.admin import add_rule
from parkazoo.local import LocalCluster, free_ports
from parkazoo.protocol.epochs import Rule
from tests.live.world import wait_until
from tests.neighbours.builds import kafka_command
from tests.neighbours.neighbour_case import RUN_S, ZOO_CFG, NeighbourTest

CHROOT = "/kafka"
LINES = ["one", "two", "three"]


class TestKafka(NeighbourTest):
    """Its transactions have paths all over its tree, so a rule keeps that on one ensemble."""

    @classmethod
    def setUpClass(cls) -> None:
        cls.command = kafka_command()
        cls.cluster = cls.enterClassContext(LocalCluster(3, 1, zoo_cfg=ZOO_CFG))
        add_rule(cls.cluster.hosts, Rule(CHROOT), yes=True, strangers_gone=True)

    def test_topics_and_messages(self) -> None:
        client = self.parkazoo()
        gateway = self.new_gateway("table")
        (port,) = free_ports(1)
        self.broker = f"127.0.0.1:{port}"
        process = self.begin(f"127.0.0.1:{gateway.port}{CHROOT}")
        self.topics("--create", "--topic", "a", "--partitions", "3")
        self.assertEqual(self.sent_and_received("a"), sorted(LINES))
        gateway.end()
        gateway.start()
        self.topics("--create", "--topic", "b", "--partitions", "2")
        self.topics("--alter", "--topic", "b", "--partitions", "4")
        self.assertEqual(self.sent_and_received("b"), sorted(LINES))
        self.topics("--delete", "--topic", "a")
        known = f"{CHROOT}/brokers/topics"
        wait_until(lambda: "a" not in client.get_children(known), "the topic is deleted", RUN_S)
        self.assertIn("b", client.get_children(known))
        self.assertEqual(len(client.get_children(f"{known}/b/partitions")), 4)
        self.assertEqual(client.get_children(f"{CHROOT}/brokers/ids"), ["1"])
        self.assertIsNone(process.poll(), "the broker has gone on")

    def begin(self, zookeeper: str) -> subprocess.Popen[bytes]:
        settings = {
            "broker.id": "1",
            "listeners": f"PLAINTEXT://{self.broker}",
            "zookeeper.connect": zookeeper,
            "log.dirs": str(self.folder / "logs"),
            "offsets.topic.replication.factor": "1",
            "offsets.topic.num.partitions": "1",
            "group.initial.rebalance.delay.ms": "0",
        }
        file = Path(self.folder, "server.properties")
        file.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        with Path(self.folder, "broker.out").open("w") as said:
            process = subprocess.Popen(
                [*self.command, "kafka.Kafka", str(file)], cwd=self.folder, stdout=said, stderr=said
            )
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def topics(self, *arguments: str) -> None:
        self.tool("org.apache.kafka.tools.TopicCommand", *arguments)

    def sent_and_received(self, topic: str) -> list[str]:
        self.tool("kafka.tools.ConsoleProducer", "--topic", topic, said="\n".join(LINES))
        consumer = ["org.apache.kafka.tools.consumer.ConsoleConsumer", "--topic", topic, "--from-beginning"]
        return sorted(self.tool(*consumer, "--max-messages", str(len(LINES))).splitlines())

    def tool(self, name: str, *arguments: str, said: str = "") -> str:
        """Run one of Kafka's commands; returns what it prints."""
        command = [*self.command, name, "--bootstrap-server", self.broker, *arguments]
        done = subprocess.run(command, input=said, capture_output=True, text=True, timeout=RUN_S, check=False)
        self.assertEqual(done.returncode, 0, f"{done.stdout}\n{done.stderr}\n{self.broker_said()}")
        return done.stdout

    def broker_said(self) -> str:
        return Path(self.folder, "broker.out").read_text()[-2000:]
