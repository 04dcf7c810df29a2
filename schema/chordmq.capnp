@0xd3a1f0c5b7e94826;
# ChordMQ over Cap'n Proto. The bootstrap capability is Door.
#
# A call that is refused fails with an exception whose text is `<Error>: <reason>`, such as
# `UnknownTopic: no topic orders`.

struct Header {
  name @0 :Text;
  value @1 :Data;                  # null is no value; an empty one is an empty value
}

struct Message {
  key @0 :Data;                    # null is no key; messages of one key keep their order
  value @1 :Data;                  # null is no value: in a compacted topic it deletes the key
  headers @2 :List(Header);
  timestampMs @3 :Int64 = -1;      # since 1970; -1 is now
  partition @4 :Int32 = -1;        # -1 lets the key decide
}

struct Delivery {
  message @0 :Message;
  offset @1 :Int64;
  name @2 :Text;                   # the name with levels that it was published under, if any
  deliveries @3 :UInt16;           # of a shared index: for the how-manieth time
}

struct Gap {
  partition @0 :Int32;
  wanted @1 :Int64;                # offsets from here
  next @2 :Int64;                  # to before here are not there any more
}

struct Batch {
  topic @0 :Text;                  # the log topic
  deliveries @1 :List(Delivery);
  position @2 :Text;               # of an index of one's own: go on from here
  gaps @3 :List(Gap);              # what an index of one's own has missed
}

struct Places {
  # One number per message, in their order.
  partitions @0 :List(Int32);
  offsets @1 :List(Int64);         # -1: not stored
  failure @2 :Text;                # why some are not stored; empty if all are
}

struct Position {
  topic @0 :Text;
  position @1 :Text;               # as a batch had it: `0:15,1:7`
}

struct Start {
  union {
    earliest @0 :Void;
    latest @1 :Void;
    timestampMs @2 :Int64;
    positions @3 :List(Position);  # resume; with an index of one's own only
  }
}

struct Index {
  # Whose place it is: each has its own and gets everything, or several share one.
  union {
    own @0 :Text;                  # a name keeps what is committed; empty: the client remembers
    shared @1 :Text;               # a group: each message goes to one of its members
  }
}

struct Wanted {
  topic @0 :Text;                  # a log topic, or a filter over names: `plant/+/temperature`
  index @1 :Index;
  start @2 :Start;                 # where an index begins that has no place yet
  credit @3 :UInt32;               # messages that may come before `credit` is called; 0: any
}

struct Credentials {
  union {
    none @0 :Void;                 # or the certificate of the connection
    token @1 :Text;
    password :group {
      user @2 :Text;
      secret @3 :Text;
    }
  }
}

struct Setting {
  name @0 :Text;                   # Kafka's names: `retention.ms`, `retention.bytes`
  value @1 :Text;
}

struct Partition {
  partition @0 :Int32;
  startOffset @1 :Int64;
  endOffset @2 :Int64;
}

struct Topic {
  name @0 :Text;
  partitions @1 :List(Partition);
  settings @2 :List(Setting);      # those that differ from the node's
}

enum Outcome {
  accept @0;                       # done
  release @1;                      # give it to another
  reject @2;                       # nobody can process it
  renew @3;                        # more time
}

interface Door {
  login @0 (credentials :Credentials, client :Text) -> (node :Node);
}

interface Node {
  publish @0 (topic :Text, messages :List(Message)) -> (places :Places);
  produce @1 (topic :Text) -> (producer :Producer);
  subscribe @2 (wanted :Wanted, sink :Sink) 
      -> (subscription :Subscription, positions :List(Position));

  commit @3 (index :Text, topic :Text, position :Text);
  committed @4 (index :Text, topic :Text) -> (position :Text);

  createTopic @5 (name :Text, partitions :Int32 = -1, settings :List(Setting)) -> (topic :Topic);
  listTopics @6 () -> (names :List(Text));
  describeTopic @7 (name :Text) -> (topic :Topic);
  deleteTopic @8 (name :Text);
}

interface Producer {
  push @0 (messages :List(Message)) -> stream;
  # Returns when there is room for more, which may be before they are stored.

  flush @1 () -> (stored :UInt64);
  # Returns when all that was pushed is stored; fails if some of it could not be.
}

interface Sink {
  # What a subscriber implements.

  deliver @0 (batch :Batch) -> stream;
  end @1 (reason :Text);
  # The subscription is over: the topic was deleted, the right to read it withdrawn, or the node
  # stops.
}

interface Subscription {
  # Dropping it, or closing the connection, ends the subscription.

  credit @0 (count :UInt32);
  acknowledge @1 (topic :Text, partition :Int32, first :Int64, last :Int64, outcome :Outcome);
  # Of a shared index; returns when it would survive a crash.

  commit @2 (topic :Text, position :Text);
  # Of a named index of one's own; returns when it would survive a crash.

  close @3 ();
}
