"""The smallest complete example, without a key: two turns, the log that is made from them, and a search for exact words.

Run it with `python examples/quickstart.py`. It writes `quickstart.db`. If you run it again, it uses the same memory.
"""

from memolog import SyncMemory

TALK = [
    (
        "Passwords have at least 12 characters. Write the check.",
        "Done: check_password() in auth/passwords.py uses argon2id with 64 MiB; 14 tests pass.",
    ),
    ("We deploy on Fridays, never on Mondays.", "Noted."),
]


def main() -> None:
    """Make two turns, observe them, and print what the model sees before and after."""
    with SyncMemory("quickstart.db") as memory:
        thread = memory.thread("auth-service", resource="alice")
        for question, answer in TALK:
            with thread.turn() as turn:
                context = turn.prepare(question)
                context.to_openai(system="You are a careful engineer.")  # the request for your client
                turn.record(answer)

        print("before: the messages")
        for message in thread.context().messages:
            print(f"  {message.role}: {message.text}")

        thread.observe()  # happens in the background at 30,000 tokens; called here to show the result
        print("after: the log")
        for observation in thread.log():
            mark = "* 🔴" if observation.priority == "high" else "  *"
            print(f"  {mark} {observation.text}")

        print("found: the exact words")
        print(f"  {memory.resource('alice').search('argon2', sources=['raw']).results[0].snippet}")


if __name__ == "__main__":
    main()
