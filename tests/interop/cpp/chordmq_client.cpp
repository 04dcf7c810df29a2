// A client of ChordMQ in C++, from the schema file and Cap'n Proto's own library only.
//
//   chordmq_client HOST:PORT TOPIC COUNT
//
// Makes the topic, streams COUNT messages to it, shares them with a group, acknowledges each, and
// prints what it saw: `stored N, received N, errors ...`.

#include <capnp/ez-rpc.h>
#include <iostream>
#include <string>

#include "chordmq.capnp.h"

constexpr unsigned BATCH = 100;

class Worker final : public Sink::Server {
 public:
  Worker(uint64_t wanted, kj::Own<kj::PromiseFulfiller<void>> done)
      : wanted(wanted), done(kj::mv(done)) {}

  Subscription::Client subscription = nullptr;
  uint64_t received = 0;
  uint64_t sum = 0;
  bool inOrder = true;

  kj::Promise<void> deliver(DeliverContext context) override {
    auto batch = context.getParams().getBatch();
    auto acknowledged = kj::heapArrayBuilder<kj::Promise<void>>(batch.getDeliveries().size());
    for (auto delivery : batch.getDeliveries()) {
      auto message = delivery.getMessage();
      inOrder = inOrder && delivery.getOffset() == static_cast<int64_t>(received);
      inOrder = inOrder && message.hasKey() && !message.getHeaders()[0].hasValue();
      auto value = message.getValue();
      sum += std::stoull(std::string(reinterpret_cast<const char*>(value.begin()), value.size()));
      received++;
      auto request = subscription.acknowledgeRequest();
      request.setTopic(batch.getTopic());
      request.setPartition(message.getPartition());
      request.setFirst(delivery.getOffset());
      request.setLast(delivery.getOffset());
      request.setOutcome(Outcome::ACCEPT);
      acknowledged.add(request.send().ignoreResult());
    }
    return kj::joinPromises(acknowledged.finish()).then([this]() {
      if (received == wanted) done->fulfill();
    });
  }

  kj::Promise<void> end(EndContext context) override {
    done->reject(KJ_EXCEPTION(FAILED, "the subscription has ended", context.getParams().getReason()));
    return kj::READY_NOW;
  }

 private:
  uint64_t wanted;
  kj::Own<kj::PromiseFulfiller<void>> done;
};

int main(int argc, char* argv[]) {
  const std::string topic = argv[2];
  const uint64_t count = std::stoull(argv[3]);
  capnp::EzRpcClient client(argv[1]);
  auto& wait = client.getWaitScope();

  auto login = client.getMain<Door>().loginRequest();
  login.setClient("C++");
  auto node = login.send().wait(wait).getNode();

  auto create = node.createTopicRequest();
  create.setName(topic.c_str());
  create.setPartitions(1);
  auto settings = create.initSettings(1);
  settings[0].setName("retention.ms");
  settings[0].setValue("3600000");
  create.send().wait(wait);

  auto produce = node.produceRequest();
  produce.setTopic(topic.c_str());
  auto producer = produce.send().wait(wait).getProducer();
  for (uint64_t sent = 0; sent < count; sent += BATCH) {
    auto push = producer.pushRequest();
    auto messages = push.initMessages(BATCH);
    for (unsigned row = 0; row < BATCH; row++) {
      auto text = std::to_string(sent + row);
      messages[row].setKey(kj::ArrayPtr<const kj::byte>());
      messages[row].setValue(kj::StringPtr(text.c_str()).asBytes());
      messages[row].initHeaders(1)[0].setName("empty");
    }
    push.send().wait(wait);  // returns when the stream has room for more
  }
  auto stored = producer.flushRequest().send().wait(wait).getStored();

  auto paf = kj::newPromiseAndFulfiller<void>();
  auto worker = kj::heap<Worker>(count, kj::mv(paf.fulfiller));
  auto& seen = *worker;
  auto subscribe = node.subscribeRequest();
  auto wanted = subscribe.initWanted();
  wanted.setTopic(topic.c_str());
  wanted.initIndex().setShared((topic + "-group").c_str());
  wanted.initStart().setEarliest();
  wanted.setCredit(500);
  subscribe.setSink(kj::mv(worker));
  auto request = subscribe.send();
  seen.subscription = request.getSubscription();
  auto subscribed = request.wait(wait);
  paf.promise.wait(wait);

  std::string error = "none";
  auto wrong = node.describeTopicRequest();
  wrong.setName("nowhere");
  try {
    wrong.send().wait(wait);
  } catch (const kj::Exception& fault) {
    error = fault.getDescription().cStr();
  }
  std::cout << "stored " << stored << ", received " << seen.received << ", sum " << seen.sum
            << (seen.inOrder ? ", in order" : ", out of order") << "\n"
            << error << std::endl;
  return 0;
}
