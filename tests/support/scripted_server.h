#ifndef GRADWIRE_TESTS_SUPPORT_SCRIPTED_SERVER_H_
#define GRADWIRE_TESTS_SUPPORT_SCRIPTED_SERVER_H_

#include <string>
#include <thread>
#include <vector>

namespace gradwire::testing {

// A TCP server on 127.0.0.1 that gives its first connection the first of the answers,
// as bytes, the second the second, and so on, each after a request's empty line came;
// the port is closed after the last. The destructor ends it.
class ScriptedServer {
 public:
  // `stays_open`: connections are left open behind the answer until the server ends.
  explicit ScriptedServer(std::vector<std::string> answers, bool stays_open = false);
  ~ScriptedServer();
  ScriptedServer(const ScriptedServer&) = delete;
  ScriptedServer& operator=(const ScriptedServer&) = delete;

  std::string address() const;  // "127.0.0.1:port"

 private:
  void Serve(const std::vector<std::string>& answers, bool stays_open);

  int listener_ = -1;
  int wake_read_ = -1;  // readable once the destructor runs
  int wake_write_ = -1;
  int port_ = 0;
  std::thread thread_;
};

// An HTTP answer with `body`, of the given code.
std::string HttpAnswer(const std::string& body, int code = 200);

}  // namespace gradwire::testing

#endif  // GRADWIRE_TESTS_SUPPORT_SCRIPTED_SERVER_H_
