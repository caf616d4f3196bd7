"""Talks with an agent over REST and Server-Sent Events. Needs Python 3.9 or later and no packages.

    python3 clients/python/chat.py http://127.0.0.1:7410 helper
    PAWL_KEY=pawl_… SSL_CERT_FILE=ca.pem python3 clients/python/chat.py https://pawl.example.com:7410 helper TOPIC

It posts each line of standard input to a new topic with the agent, or to TOPIC, and prints the reply while it is streamed. If the agent asks for an approval, the next
line answers it: y approves, anything else rejects. A request that fails on the way is sent again: a message has an id, and the stream continues after the last
event that was read, so nothing is missed or repeated.
"""

import http.client
import json
import os
import sys
import time
import urllib.error
import urllib.request
import uuid

TEMPORARY = (429, 502, 503, 504)
IDLE = 60  # seconds without a byte after which a connection counts as lost; the server sends a comment every 15


def send(url, body, read, headers=dict):
    """Sends a request until read succeeds, and returns its result. Without a body, the request is a GET."""
    pause = 0.1
    while True:
        request = urllib.request.Request(url, headers=headers())
        if body is not None:
            request.data = json.dumps(body).encode()
            request.add_header("Content-Type", "application/json")
        if os.environ.get("PAWL_KEY"):
            request.add_header("Authorization", "Bearer " + os.environ["PAWL_KEY"])
        try:
            with urllib.request.urlopen(request, timeout=IDLE) as response:
                pause = 0.1
                return read(response)
        except urllib.error.HTTPError as refusal:
            problem = json.load(refusal)
            if refusal.code not in TEMPORARY:
                sys.exit(problem["detail"])
            pause = max(pause, problem.get("retryAfterSeconds", 0))
        except (OSError, http.client.HTTPException) as error:
            print("trying again:", error, file=sys.stderr)
        time.sleep(pause)
        pause = min(2 * pause, 5)


def frames(response):
    """Yields the name and the data of each Server-Sent Event of a response."""
    fields = {}
    for line in response:
        name, _, value = line.decode().rstrip("\n").partition(": ")
        if name:
            fields[name] = value
        else:
            if "data" in fields:
                yield fields["event"], json.loads(fields["data"])
            fields = {}
    raise ConnectionError("the stream was cut off")


class Chat:
    """A conversation with an agent."""

    def __init__(self, base, agent, topic=None):
        self.agent = agent
        if topic:
            got = send(f"{base}/v1/topics/{topic}", None, json.load)
        else:
            body = {"topic": {"displayName": "Python"}, "participants": [{"agentId": agent}], "requestId": str(uuid.uuid4())}
            got = send(f"{base}/v1/topics", body, json.load)
        print("topic", got["id"], file=sys.stderr)
        self.url = f"{base}/v1/topics/{got['id']}"
        self.after = got["lastSeq"]
        self.about = None  # the message that the agent works on
        self.asked = None  # the message in which it asks for an approval

    def say(self, line):
        """Posts a line, and prints the agent's reply or question."""
        body = {"message": {"id": str(uuid.uuid4())}}
        if self.asked:
            body["message"]["replyTo"] = self.asked
            body["answer"] = {"approve": {}} if line == "y" else {"reject": {"reason": line}}
        else:
            body["message"].update(text=line, mentions=[self.agent])
            self.about = body["message"]["id"]
        send(self.url + "/messages", body, json.load)
        headers = lambda: {"Accept": "text/event-stream", "Last-Event-ID": str(self.after)}
        self.asked = send(self.url + "/events", None, self.follow, headers)

    def follow(self, response):
        """Prints the events of the agent's work until it ends or waits. Returns the message that asks for an approval, if one does."""
        for name, event in frames(response):
            if name == "end":
                sys.exit("you no longer take part in the topic")
            if name == "error":
                if event["status"] in TEMPORARY:
                    raise ConnectionError(event["detail"])
                sys.exit(event["detail"])
            self.after = event["seq"]
            if event.get("messageId") != self.about:
                continue
            if name == "agent_stream_chunk":
                print(event["streamChunk"]["text"], end="", flush=True)
            elif name == "agent_stream_done":
                print(flush=True)
                problem = event["streamDone"].get("error")
                if problem and not event["streamDone"].get("restarts"):
                    print(problem, file=sys.stderr)
                    return None
            elif name == "agent_silent":
                print(event["agentSilent"]["reason"], file=sys.stderr)
                return None
            elif name == "new_message" and "wait" in event["newMessage"]:
                message = event["newMessage"]
                print(message["text"], message["wait"]["toolId"], message["wait"]["inputJson"], flush=True)
                return message["id"]
            elif name == "new_message" and "ext" not in event["newMessage"]:
                return None


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        print("usage: python3 chat.py ADDRESS AGENT [TOPIC]", file=sys.stderr)
        sys.exit(64)
    chat = Chat(*sys.argv[1:])
    for text in sys.stdin:
        chat.say(text.rstrip("\n"))
