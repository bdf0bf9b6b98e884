"""Runs of studies without Prefect."""

import json

from data.store.folders import home
from tasks.cache import SERIALIZER, at_hand, find_record, records_folder


class PlainTasks:
    """Computes what is not stored, as Prefect does, and keeps the records where Prefect keeps them."""

    def say(self, sentence):
        pass

    def bring(self, function, *arguments, **options):
        return function(*arguments, **options)

    def run(self, function, key, *arguments, again=False):
        record = find_record(key.name)
        if again or record is None or not at_hand(record):
            record = function(key, *arguments)
            metadata = {"serializer": SERIALIZER, "storage_block_id": None}
            path = records_folder(home()) / key.name
            path.parent.mkdir(exist_ok=True)
            path.write_text(json.dumps({"metadata": metadata, "result": json.dumps(record)}))
        return record

    def run_all(self, function, jobs, study=""):
        return [self.run(function, *job.arguments) for job in jobs]
