"""One consumer as a program, to be killed: writes a line for each message, then acknowledges it.

Arguments: the front, and what is wanted as JSON.
"""

import json
import os
import sys

from tests.faults.subscribers.fronts import subscriber_of
from tests.faults.subscribers.subscriber import Wanted

if __name__ == "__main__":
    subscriber = subscriber_of(sys.argv[1])(Wanted(**json.loads(sys.argv[2])))
    for token, value in subscriber.messages():
        os.write(1, value + b"\n")
        subscriber.processed(token)
